// The engine's thread: takes requests from the inbox, alternates the scheduler and the executor,
// puts what comes out into outboxes, and keeps time, which the scheduler does not know.
#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/engine/outbox.h"
#include "runtime/engine/submission.h"
#include "runtime/schedule/scheduler.h"
#include "runtime/schedule/step_budget.h"
#include "runtime/watch/counters.h"

namespace k3::runtime {

struct LoopLimits {
  SchedulerLimits scheduler;    // its max_queued_requests is set by the loop
  int max_queued_requests = 0;  // waiting, beyond what the free running places take
  std::int64_t max_queued_tokens = std::int64_t{1} << 40;
  std::chrono::milliseconds target_inter_token{0};  // 0: none
  int max_unread_tokens = 1 << 30;
  std::chrono::milliseconds slow_client_timeout{30'000};
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
  Submitted Submit(Request request, std::span<Outbox* const> outboxes);
  void End(RequestId id, FinishReason reason, std::optional<int> completion_tokens);
  bool Drain(std::chrono::milliseconds timeout);
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  struct Submission {
    RequestId id{};
    Request request;
    Outbox* outbox = nullptr;
    TimePoint submitted;
  };
  struct Ending {
    RequestId id{};
    FinishReason reason{};
    std::optional<int> completion_tokens;
    TimePoint asked;
  };
  // What the loop knows of a request in flight.
  struct Tracked {
    Outbox* outbox = nullptr;
    TimePoint submitted;
    int max_tokens = 0;        // as asked; 0: not
    bool counts_late = false;  // Request::ends_by_text
    std::optional<TimePoint> admitted;
    std::optional<TimePoint> first_token;
    TimePoint last_token;
    double max_inter_token = 0;
    std::optional<TimePoint> paused;  // since when
  };

  std::optional<Refusal> FindNoRoom(int choices, std::int64_t tokens) const;  // under mutex_
  void Loop();
  bool TakeInbox();  // false: stop
  void Await(std::unique_lock<std::mutex>& lock);
  void AddArrived(std::vector<Submission> arrived);
  void Step();
  void CountStep(const Plan& plan, const StepResult& result, double seconds);
  bool Decodes(const PlanRun& run) const;
  void CheckReaders(TimePoint now);

  // engine_delivery.cc
  void Deliver(const Emission& emission, TimePoint now);
  void DeliverToken(RequestId id, const NewToken& token, TimePoint now);
  void DeliverFinished(RequestId id, Finished finished, TimePoint now);
  void CountFinished(const Tracked& tracked, const Finished& finished, TimePoint now);
  void Publish();       // gauges, and the queue
  void PublishQueue();  // what Submit and Drain go by
  void AbortAll();

  LoopLimits limits_;
  EngineCounters& counters_;

  // Engine thread only.
  std::unique_ptr<Executor> executor_;
  Scheduler scheduler_;
  StepBudget budget_;
  std::unordered_map<RequestId, Tracked> tracked_;
  std::vector<RequestId> paused_;
  bool stalled_ = false;  // the last turn found nothing that could run
  int seen_preemptions_ = 0;
  std::int64_t seen_recomputed_ = 0;
  TimePoint last_finish_;
  double finish_interval_ = 0;  // mean seconds between two ends

  std::mutex mutex_;
  std::condition_variable work_;  // for the engine: inbox_, endings_, stop_
  std::condition_variable idle_;  // for Drain
  // Guarded by mutex_.
  std::vector<Submission> inbox_;
  std::int64_t inbox_tokens_ = 0;
  std::vector<Ending> endings_;
  std::uint64_t last_id_ = 0;
  int waiting_ = 0, running_ = 0;    // of the scheduler, as of its last turn
  std::int64_t waiting_tokens_ = 0;  // likewise
  bool busy_ = false;                // the scheduler has work
  bool draining_ = false;
  bool stop_ = false;
  bool ended_ = false;  // the loop has left and answered everyone

  std::thread thread_;
};

}  // namespace k3::runtime
