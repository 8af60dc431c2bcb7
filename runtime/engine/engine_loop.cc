#include "runtime/engine/engine_loop.h"

#include <cmath>
#include <string>
#include <utility>

namespace k3::runtime {
namespace {

// How often an idle engine shows that it lives.
constexpr std::chrono::milliseconds kHeartbeat{500};

double Seconds(std::chrono::steady_clock::duration duration) {
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
      scheduler_(QueueOf(limits)) {
  Publish();
  thread_ = std::thread([this] { Loop(); });
}

EngineLoop::~EngineLoop() {
  Stop();
}

Result<Ok> EngineLoop::Validate(const Request& request) const {
  const auto invalid = [](std::string message) {
    return Error{Code::kInvalidArgument, std::move(message)};
  };
  if (request.prompt.empty()) return invalid("the prompt is empty; at least one token is needed");
  for (std::size_t i = 0; i < request.prompt.size(); ++i) {
    if (request.prompt[i] >= 0 && request.prompt[i] < limits_.vocab_size) continue;
    return invalid("prompt token " + std::to_string(i) + " is " +
                   std::to_string(request.prompt[i]) + "; ids go from 0 to " +
                   std::to_string(limits_.vocab_size - 1));
  }
  const int longest = limits_.scheduler.max_model_len - 1;
  if (request.prompt.size() > static_cast<std::size_t>(longest)) {
    return invalid("the prompt has " + std::to_string(request.prompt.size()) + " tokens; at most " +
                   std::to_string(longest) + " fit, since max_model_len is " +
                   std::to_string(longest + 1) + " and at least one token is generated");
  }
  const SamplingOptions& sampling = request.sampling;
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0) {
    return invalid("temperature is " + std::to_string(sampling.temperature) +
                   "; it must be a finite number >= 0");
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return invalid("top_p is " + std::to_string(sampling.top_p) + "; it must be in (0, 1]");
  }
  if (request.max_new_tokens && *request.max_new_tokens < 1) {
    return invalid("max_new_tokens is " + std::to_string(*request.max_new_tokens) +
                   "; it must be at least 1");
  }
  return Ok{};
}

Result<RequestId> EngineLoop::Submit(Request request, Outbox* outbox) {
  if (Result<Ok> valid = Validate(request); !valid.ok()) return valid.error();
  const std::lock_guard lock(mutex_);
  if (draining_ || stop_) {
    return Error{Code::kUnavailable, "the server is shutting down and takes no new requests"};
  }
  const int queued = waiting_ + static_cast<int>(inbox_.size());
  const int places = limits_.scheduler.max_num_seqs - running_;
  if (queued >= limits_.max_queued_requests + places) {
    return Error{Code::kResourceExhausted, "the queue is full: " + std::to_string(queued) +
                                               " requests wait for " +
                                               std::to_string(limits_.scheduler.max_num_seqs) +
                                               " running places (--max-queued-requests)"};
  }
  const auto id = static_cast<RequestId>(++last_id_);
  inbox_.push_back({id, std::move(request), outbox, Clock::now()});
  work_.notify_one();
  return id;
}

void EngineLoop::Cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  cancels_.push_back(id);
  work_.notify_one();
}

bool EngineLoop::Drain(std::chrono::milliseconds timeout) {
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

bool EngineLoop::TakeInbox() {
  std::vector<Submission> arrived;
  std::vector<RequestId> cancels;
  {
    std::unique_lock lock(mutex_);
    while (!stop_ && !busy_ && inbox_.empty() && cancels_.empty()) {
      counters_.heartbeat_ms.store(
          std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
              .count());
      work_.wait_for(lock, kHeartbeat);
    }
    if (stop_) return false;
    arrived.swap(inbox_);
    cancels.swap(cancels_);
    waiting_ += static_cast<int>(arrived.size());
    busy_ = true;
  }
  for (Submission& submission : arrived) {
    tracked_[submission.id] = {.outbox = submission.outbox, .submitted = submission.submitted};
    // Submit checked all that Add can refuse.
    K3_CHECK(scheduler_.Add(submission.id, std::move(submission.request)).ok());
  }
  const Clock::time_point now = Clock::now();
  for (const RequestId id : cancels) {
    if (const std::optional<Emission> emission = scheduler_.Cancel(id)) Deliver(*emission, now);
  }
  return true;
}

void EngineLoop::Step() {
  const Plan plan = scheduler_.Next();
  if (plan.empty()) return;
  const StepKind kind = KindOf(plan);
  const Clock::time_point begin = Clock::now();
  for (const PlanRun& run : plan.runs) {
    Tracked& tracked = tracked_.at(run.sequence);
    if (tracked.admitted) continue;
    tracked.admitted = begin;
    counters_.queue_seconds.Observe(Seconds(begin - tracked.submitted));
  }
  const StepResult result = executor_->Run(plan);
  const Clock::time_point end = Clock::now();
  counters_.steps[static_cast<std::size_t>(kind)].Add();
  counters_.step_seconds.Observe(Seconds(end - begin));
  for (const Emission& emission : scheduler_.Advance(result)) Deliver(emission, end);
}

StepKind EngineLoop::KindOf(const Plan& plan) const {
  bool prefill = false, decode = false;
  for (const PlanRun& run : plan.runs) {
    (run.tokens.size() == 1 && tracked_.at(run.sequence).first_token ? decode : prefill) = true;
  }
  if (prefill && decode) return StepKind::kMixed;
  return prefill ? StepKind::kPrefill : StepKind::kDecode;
}

void EngineLoop::Deliver(const Emission& emission, Clock::time_point now) {
  if (const auto* finished = std::get_if<Finished>(&emission.what)) {
    DeliverFinished(emission.request, *finished, now);
    return;
  }
  Tracked& tracked = tracked_.at(emission.request);
  if (const auto* started = std::get_if<Started>(&emission.what)) {
    counters_.prompt_tokens_computed.Add(
        static_cast<std::uint64_t>(started->prompt_tokens - started->cached_tokens));
    counters_.prompt_tokens_cached.Add(static_cast<std::uint64_t>(started->cached_tokens));
    tracked.outbox->Put(*started);
    return;
  }
  DeliverToken(tracked, std::get<Token>(emission.what), now);
}

void EngineLoop::DeliverToken(Tracked& tracked, Token token, Clock::time_point now) {
  if (tracked.first_token) {
    counters_.inter_token_latency_seconds.Observe(Seconds(now - tracked.last_token));
  } else {
    tracked.first_token = now;
    counters_.time_to_first_token_seconds.Observe(Seconds(now - tracked.submitted));
  }
  tracked.last_token = now;
  counters_.generation_tokens.Add();
  tracked.outbox->Put(token);
}

void EngineLoop::DeliverFinished(RequestId id, Finished finished, Clock::time_point now) {
  const auto it = tracked_.find(id);
  K3_CHECK(it != tracked_.end());
  const Tracked tracked = it->second;
  tracked_.erase(it);
  finished.timings.queue = Seconds(tracked.admitted.value_or(now) - tracked.submitted);
  if (tracked.first_token)
    finished.timings.ttft = Seconds(*tracked.first_token - tracked.submitted);
  finished.timings.total = Seconds(now - tracked.submitted);
  counters_.requests_finished[static_cast<std::size_t>(finished.reason)].Add();
  if (finished.reason == FinishReason::kError) counters_.nan_logits.Add();
  counters_.request_duration_seconds.Observe(finished.timings.total);
  tracked.outbox->Put(finished);  // the box may be gone now
}

void EngineLoop::Publish() {
  const std::int64_t recomputed = scheduler_.num_recomputed_tokens();
  counters_.preemptions.Add(
      static_cast<std::uint64_t>(scheduler_.num_preemptions() - seen_preemptions_));
  counters_.recomputed_tokens.Add(static_cast<std::uint64_t>(recomputed - seen_recomputed_));
  seen_preemptions_ = scheduler_.num_preemptions();
  seen_recomputed_ = recomputed;
  counters_.requests_running.Set(scheduler_.num_running());
  counters_.requests_waiting.Set(scheduler_.num_waiting());
  counters_.queue_tokens.Set(static_cast<double>(scheduler_.num_waiting_tokens()));
  counters_.pages_total.Set(limits_.scheduler.num_pages);
  counters_.pages_free.Set(scheduler_.num_free_pages());
  counters_.heartbeat_ms.store(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
          .count());
  const std::lock_guard lock(mutex_);
  waiting_ = scheduler_.num_waiting();
  running_ = scheduler_.num_running();
  busy_ = !scheduler_.idle();
  if (!busy_ && inbox_.empty()) idle_.notify_all();
}

void EngineLoop::AbortAll() {
  std::vector<Submission> unseen;
  {
    const std::lock_guard lock(mutex_);
    unseen.swap(inbox_);
  }
  const Clock::time_point now = Clock::now();
  for (const Submission& submission : unseen) {
    tracked_[submission.id] = {.outbox = submission.outbox, .submitted = submission.submitted};
    Finished finished{.reason = FinishReason::kAborted};
    finished.usage.prompt_tokens = static_cast<int>(submission.request.prompt.size());
    DeliverFinished(submission.id, finished, now);
  }
  while (!tracked_.empty()) {
    const std::optional<Emission> emission = scheduler_.Cancel(tracked_.begin()->first);
    K3_CHECK(emission.has_value());
    Deliver(*emission, now);
  }
  Publish();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  idle_.notify_all();
}

}  // namespace k3::runtime
