// The engine's thread: takes requests from the inbox, alternates the scheduler and the executor,
// puts what comes out into outboxes, and keeps time, which the scheduler does not know.
#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/engine/outbox.h"
#include "runtime/schedule/scheduler.h"
#include "runtime/watch/counters.h"

namespace k3::runtime {

struct LoopLimits {
  SchedulerLimits scheduler;    // its max_queued_requests is set by the loop
  int max_queued_requests = 0;  // waiting, beyond what the free running places take
  int vocab_size = 0;
};

class EngineLoop {
 public:
  // `counters` must outlive the loop.
  EngineLoop(const LoopLimits& limits, std::unique_ptr<Executor> executor,
             EngineCounters& counters);
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // See engine.h for the contracts.
  Result<RequestId> Submit(Request request, Outbox* outbox);
  void Cancel(RequestId id);
  bool Drain(std::chrono::milliseconds timeout);
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  struct Submission {
    RequestId id{};
    Request request;
    Outbox* outbox = nullptr;
    Clock::time_point submitted;
  };
  // What the loop knows of a request in flight.
  struct Tracked {
    Outbox* outbox = nullptr;
    Clock::time_point submitted;
    std::optional<Clock::time_point> admitted;
    std::optional<Clock::time_point> first_token;
    Clock::time_point last_token;
  };

  Result<Ok> Validate(const Request& request) const;
  void Loop();
  bool TakeInbox();  // false: stop
  void Step();
  void Deliver(const Emission& emission, Clock::time_point now);
  void DeliverToken(Tracked& tracked, Token token, Clock::time_point now);
  void DeliverFinished(RequestId id, Finished finished, Clock::time_point now);
  StepKind KindOf(const Plan& plan) const;
  void Publish();  // gauges, and what Submit goes by
  void AbortAll();

  LoopLimits limits_;
  EngineCounters& counters_;

  // Engine thread only.
  std::unique_ptr<Executor> executor_;
  Scheduler scheduler_;
  std::unordered_map<RequestId, Tracked> tracked_;
  int seen_preemptions_ = 0;
  std::int64_t seen_recomputed_ = 0;

  std::mutex mutex_;
  std::condition_variable work_;  // for the engine: inbox_, cancels_, stop_
  std::condition_variable idle_;  // for Drain
  // Guarded by mutex_.
  std::vector<Submission> inbox_;
  std::vector<RequestId> cancels_;
  std::uint64_t last_id_ = 0;
  int waiting_ = 0, running_ = 0;  // of the scheduler, as of its last turn
  bool busy_ = false;              // the scheduler has work
  bool draining_ = false;
  bool stop_ = false;
  bool ended_ = false;  // the loop has left and answered everyone

  std::thread thread_;
};

}  // namespace k3::runtime
