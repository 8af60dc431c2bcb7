#include "runtime/engine/engine_loop.h"

#include <algorithm>
#include <string>
#include <utility>

namespace k3::runtime {
namespace {

using std::chrono::milliseconds;

// How often an idle engine shows that it lives, and looks for late requests.
constexpr milliseconds kHeartbeat{500};
// How often one with nothing but paused or blocked sequences looks again.
constexpr milliseconds kStalledPoll{5};

double Seconds(TimePoint::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Room in the scheduler's queue for all that Submit may let in: what waits, what the free places
// will take at once, and running ones that were preempted.
SchedulerLimits QueueOf(const LoopLimits& limits) {
  SchedulerLimits scheduler = limits.scheduler;
  scheduler.max_queued_requests = limits.max_queued_requests + 2 * scheduler.max_num_seqs;
  return scheduler;
}

}  // namespace

EngineLoop::EngineLoop(const LoopLimits& limits, std::unique_ptr<Executor> executor,
                       EngineCounters& counters)
    : limits_(limits),
      counters_(counters),
      executor_(std::move(executor)),
      scheduler_(QueueOf(limits)),
      budget_(std::chrono::duration<double>(limits.target_inter_token).count(),
              limits.scheduler.max_num_batched_tokens) {
  Publish();
  thread_ = std::thread([this] { Loop(); });
}

EngineLoop::~EngineLoop() {
  Stop();
}

Submitted EngineLoop::Submit(Request request, std::span<Outbox* const> outboxes) {
  const int choices = static_cast<int>(outboxes.size());
  if (auto fault = FindFault(request, choices, limits_.scheduler)) return *std::move(fault);
  const auto tokens = static_cast<std::int64_t>(request.prompt.size()) * choices;
  const std::lock_guard lock(mutex_);
  if (draining_ || stop_) {
    return Refusal{
        Refusal::Why::kStopping, "the server is shutting down and takes no new requests", {}};
  }
  if (auto refusal = FindNoRoom(choices, tokens)) return *std::move(refusal);
  const auto first = static_cast<RequestId>(last_id_ + 1);
  const TimePoint now = Clock::now();
  for (Outbox* outbox : outboxes.first(outboxes.size() - 1)) {
    inbox_.push_back({static_cast<RequestId>(++last_id_), request, outbox, now});
    ++request.sampling.choice;
  }
  inbox_.push_back({static_cast<RequestId>(++last_id_), std::move(request), outboxes.back(), now});
  inbox_tokens_ += tokens;
  work_.notify_one();
  return first;
}

// Both bounds are about waiting: what the free running places take at once is not counted.
std::optional<Refusal> EngineLoop::FindNoRoom(int choices, std::int64_t tokens) const {
  const int queued = waiting_ + static_cast<int>(inbox_.size());
  const int places = limits_.scheduler.max_num_seqs - running_;
  const auto retry = static_cast<int>(counters_.retry_after_ms.value());
  if (queued + choices > limits_.max_queued_requests + places) {
    return Refusal{Refusal::Why::kQueueFull,
                   "the queue is full: " + std::to_string(queued) + " requests wait for " +
                       std::to_string(limits_.scheduler.max_num_seqs) +
                       " running places (--max-queued-requests)",
                   retry};
  }
  const std::int64_t queued_tokens = waiting_tokens_ + inbox_tokens_;
  if (queued + choices > places && queued_tokens + tokens > limits_.max_queued_tokens) {
    return Refusal{Refusal::Why::kTokensFull,
                   "the queue is full: prompts of " + std::to_string(queued_tokens) +
                       " tokens wait, and this one has " + std::to_string(tokens) +
                       " more (--max-queued-tokens)",
                   retry};
  }
  return std::nullopt;
}

void EngineLoop::End(RequestId id, FinishReason reason, std::optional<int> completion_tokens) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  endings_.push_back({id, reason, completion_tokens, Clock::now()});
  work_.notify_one();
}

bool EngineLoop::Drain(milliseconds timeout) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  return idle_.wait_for(lock, timeout, [this] { return (!busy_ && inbox_.empty()) || ended_; });
}

void EngineLoop::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    work_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void EngineLoop::Loop() {
  while (TakeInbox()) {
    Step();
    Publish();
  }
  AbortAll();
}

void EngineLoop::Await(std::unique_lock<std::mutex>& lock) {
  const auto called = [this] { return stop_ || !inbox_.empty() || !endings_.empty(); };
  while (!busy_ && !called()) {
    counters_.heartbeat_ms.store(
        std::chrono::duration_cast<milliseconds>(Clock::now().time_since_epoch()).count());
    work_.wait_for(lock, kHeartbeat);
  }
  if (stalled_) work_.wait_for(lock, kStalledPoll, called);
}

bool EngineLoop::TakeInbox() {
  std::vector<Submission> arrived;
  std::vector<Ending> endings;
  {
    std::unique_lock lock(mutex_);
    Await(lock);
    if (stop_) return false;
    arrived.swap(inbox_);
    endings.swap(endings_);
    waiting_ += static_cast<int>(arrived.size());
    waiting_tokens_ += std::exchange(inbox_tokens_, 0);
    busy_ = true;
  }
  AddArrived(std::move(arrived));
  for (const Ending& ending : endings) {
    const auto emission = scheduler_.End(ending.id, ending.reason, ending.completion_tokens);
    if (!emission) continue;
    const TimePoint now = Clock::now();
    counters_.abort_seconds.Observe(Seconds(now - ending.asked));
    Deliver(*emission, now);
  }
  return true;
}

void EngineLoop::AddArrived(std::vector<Submission> arrived) {
  for (Submission& submission : arrived) {
    tracked_[submission.id] = {.outbox = submission.outbox,
                               .submitted = submission.submitted,
                               .max_tokens = submission.request.max_new_tokens.value_or(0),
                               .counts_late = submission.request.ends_by_text};
    // Submit checked all that Add can refuse.
    K3_CHECK(scheduler_.Add(submission.id, std::move(submission.request)).ok());
  }
}

void EngineLoop::Step() {
  const TimePoint begin = Clock::now();
  for (const Emission& emission : scheduler_.Expire(begin)) Deliver(emission, begin);
  CheckReaders(begin);
  const Plan& plan = scheduler_.Next(budget_.PrefillRows(scheduler_.decoding()));
  stalled_ = plan.empty();
  if (plan.empty()) return;
  const TimePoint planned = Clock::now();
  for (const PlanRun& run : plan.runs) {
    Tracked& tracked = tracked_.at(run.sequence);
    if (tracked.admitted) continue;
    tracked.admitted = planned;
    counters_.queue_seconds.Observe(Seconds(planned - tracked.submitted));
  }
  PublishQueue();  // a step may take long; who asks meanwhile should see what it took in
  const StepResult result = executor_->Run(plan);
  const TimePoint end = Clock::now();
  CountStep(plan, result, Seconds(end - planned));
  for (const Emission& emission : scheduler_.Advance(result)) Deliver(emission, end);
  using enum OverheadPhase;
  counters_.overhead_seconds[static_cast<std::size_t>(kSchedule)].Observe(Seconds(planned - begin));
  counters_.overhead_seconds[static_cast<std::size_t>(kEmit)].Observe(Seconds(Clock::now() - end));
}

bool EngineLoop::Decodes(const PlanRun& run) const {
  return run.tokens.size() == 1 && tracked_.at(run.sequence).first_token;
}

void EngineLoop::CountStep(const Plan& plan, const StepResult& result, double seconds) {
  int decodes = 0;
  for (const PlanRun& run : plan.runs) decodes += Decodes(run) ? 1 : 0;
  const int prefill_rows = plan.num_rows() - decodes;
  budget_.Observe(prefill_rows, decodes, seconds);
  const StepKind kind = prefill_rows == 0 ? StepKind::kDecode
                        : decodes == 0    ? StepKind::kPrefill
                                          : StepKind::kMixed;
  StepCounters& counters = counters_.steps[static_cast<std::size_t>(kind)];
  counters.steps.Add();
  counters.seconds.Observe(seconds);
  counters.batch_tokens.Observe(plan.num_rows());
  counters.batch_sequences.Observe(static_cast<double>(plan.runs.size()));
  double worst = 0;
  for (std::size_t group = 0; group < result.experts.size(); ++group) {
    const ExpertLoad& load = result.experts[group];
    if (load.tokens == 0) continue;
    counters_.expert_tokens[group].Add(static_cast<std::uint64_t>(load.tokens));
    counters_.expert_imbalance.Observe(load.imbalance);
    counters.active_experts.Observe(load.active);
    worst = std::max(worst, load.imbalance);
  }
  if (worst > 0) counters_.expert_imbalance_now.Set(worst);
}

// Readers that caught up go on; those that are behind for too long are let go.
void EngineLoop::CheckReaders(TimePoint now) {
  std::vector<RequestId> paused;
  paused.swap(paused_);
  for (const RequestId id : paused) {
    const auto it = tracked_.find(id);
    if (it == tracked_.end()) continue;
    Tracked& tracked = it->second;
    if (tracked.outbox->num_unread() <= limits_.max_unread_tokens / 2) {
      tracked.paused.reset();
      scheduler_.SetPaused(id, false);
    } else if (now - *tracked.paused >= limits_.slow_client_timeout) {
      Deliver(*scheduler_.End(id, FinishReason::kSlowClient), now);
    } else {
      paused_.push_back(id);
    }
  }
}

}  // namespace k3::runtime
