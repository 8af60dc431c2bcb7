// An engine that does exactly what a test tells it to, behind the real front end.
//   1. Submit accepts until `refuse_with` is set; then Put, Finish drive the newest request, or the
//      one named by its number, from the test's own thread.
//   2. End finishes a request as the real one does. Each choice of a call is a request.
#pragma once
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "server/engine_client.h"

namespace k3::server::testing {

class FakeEngine final : public EngineClient {
 public:
  FakeEngine();

  const runtime::EngineInfo& info() const override { return info_; }
  const runtime::EngineCounters& counters() const override { return counters_; }
  runtime::Submitted Submit(runtime::Request request,
                            std::span<runtime::Outbox* const> outboxes) override;
  void End(runtime::RequestId id, runtime::FinishReason reason,
           std::optional<int> completion_tokens) override;
  bool Drain(std::chrono::milliseconds timeout) override;
  void Stop() override;

  // What the test does. Numbers count from 0 in the order of Submit.
  void RefuseWith(std::optional<runtime::Refusal> refusal);
  bool WaitForRequests(int count);  // false after 10 s, as below
  bool WaitForEnd(int number);      // that the front end asked for
  runtime::Request request(int number);
  void Start(int number);
  void Put(int number, const std::vector<runtime::Token>& tokens);
  void PutOne(int number, const runtime::NewToken& token);
  void Finish(int number, runtime::FinishReason reason, std::string error = "");
  runtime::EngineCounters& counters_for_test() { return counters_; }

 private:
  struct Entry {
    runtime::Request request;
    runtime::Outbox* outbox = nullptr;  // null once finished
    int generated = 0;
    bool ended = false;  // by End
  };
  void FinishLocked(Entry& entry, runtime::FinishReason reason, std::string error);

  runtime::EngineInfo info_;
  runtime::EngineCounters counters_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> entries_;
  std::optional<runtime::Refusal> refusal_;
};

}  // namespace k3::server::testing
