#include <utility>

#include "server/engine_client.h"

namespace k3::server {
namespace {

class LiveEngine final : public EngineClient {
 public:
  explicit LiveEngine(std::unique_ptr<runtime::Engine> engine) : engine_(std::move(engine)) {}

  const runtime::EngineInfo& info() const override { return engine_->info(); }
  const runtime::EngineCounters& counters() const override { return engine_->counters(); }
  runtime::Submitted Submit(runtime::Request request,
                            std::span<runtime::Outbox* const> outboxes) override {
    return engine_->Submit(std::move(request), outboxes);
  }
  void End(runtime::RequestId id, runtime::FinishReason reason,
           std::optional<int> completion_tokens) override {
    engine_->End(id, reason, completion_tokens);
  }
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
