#include <utility>

#include "server/engine_client.h"

namespace k3::server {
namespace {

class LiveEngine final : public EngineClient {
 public:
  explicit LiveEngine(std::unique_ptr<runtime::Engine> engine) : engine_(std::move(engine)) {}

  const runtime::EngineInfo& info() const override { return engine_->info(); }
  const runtime::EngineCounters& counters() const override { return engine_->counters(); }
  Result<runtime::RequestId> Submit(runtime::Request request, runtime::Outbox* outbox) override {
    return engine_->Submit(std::move(request), outbox);
  }
  void Cancel(runtime::RequestId id) override { engine_->Cancel(id); }
  bool Drain(std::chrono::milliseconds timeout) override { return engine_->Drain(timeout); }
  void Stop() override { engine_->Stop(); }

 private:
  std::unique_ptr<runtime::Engine> engine_;
};

}  // namespace

std::unique_ptr<EngineClient> MakeEngineClient(std::unique_ptr<runtime::Engine> engine) {
  return std::make_unique<LiveEngine>(std::move(engine));
}

}  // namespace k3::server
