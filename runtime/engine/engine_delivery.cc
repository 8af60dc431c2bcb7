// The loop's way out: what a step means to each request, and what is counted of it.
#include <algorithm>
#include <utility>

#include "runtime/engine/engine_loop.h"

namespace k3::runtime {
namespace {

constexpr double kNewestInterval = 0.2;  // weight of the newest in the mean between two ends
constexpr double kLeastRetryMs = 100, kMostRetryMs = 30'000, kFirstRetryMs = 1000;

double Seconds(TimePoint::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void EngineLoop::Deliver(const Emission& emission, TimePoint now) {
  if (const auto* finished = std::get_if<Finished>(&emission.what)) {
    DeliverFinished(emission.request, *finished, now);
    return;
  }
  if (const auto* started = std::get_if<Started>(&emission.what)) {
    counters_.prompt_tokens_computed.Add(
        static_cast<std::uint64_t>(started->prompt_tokens - started->cached_tokens));
    counters_.prompt_tokens_cached.Add(static_cast<std::uint64_t>(started->cached_tokens));
    tracked_.at(emission.request).outbox->Put(*started);
    return;
  }
  DeliverToken(emission.request, std::get<NewToken>(emission.what), now);
}

void EngineLoop::DeliverToken(RequestId id, const NewToken& token, TimePoint now) {
  Tracked& tracked = tracked_.at(id);
  if (tracked.first_token) {
    const double gap = Seconds(now - tracked.last_token);
    counters_.inter_token_latency_seconds.Observe(gap);
    tracked.max_inter_token = std::max(tracked.max_inter_token, gap);
  } else {
    tracked.first_token = now;
    counters_.time_to_first_token_seconds.Observe(Seconds(now - tracked.submitted));
    counters_.prefill_seconds.Observe(Seconds(now - *tracked.admitted));
  }
  tracked.last_token = now;
  if (!tracked.counts_late) counters_.generation_tokens.Add();
  if (tracked.outbox->Put(token) < limits_.max_unread_tokens || tracked.paused) return;
  tracked.paused = now;
  scheduler_.SetPaused(id, true);
  paused_.push_back(id);
}

void EngineLoop::DeliverFinished(RequestId id, Finished finished, TimePoint now) {
  const auto it = tracked_.find(id);
  K3_CHECK(it != tracked_.end());
  const Tracked tracked = it->second;
  tracked_.erase(it);
  Timings& timings = finished.timings;
  timings.queue = Seconds(tracked.admitted.value_or(now) - tracked.submitted);
  if (tracked.first_token) {
    timings.ttft = Seconds(*tracked.first_token - tracked.submitted);
    timings.last = Seconds(tracked.last_token - tracked.submitted);
    timings.max_inter_token = tracked.max_inter_token;
  }
  timings.total = Seconds(now - tracked.submitted);
  CountFinished(tracked, finished, now);
  tracked.outbox->Put(finished);  // the box may be gone now
}

void EngineLoop::CountFinished(const Tracked& tracked, const Finished& finished, TimePoint now) {
  counters_.requests_finished[static_cast<std::size_t>(finished.reason)].Add();
  if (finished.reason == FinishReason::kError) counters_.nan_logits.Add();
  const int generated = finished.usage.completion_tokens;
  if (tracked.counts_late) {
    counters_.generation_tokens.Add(static_cast<std::uint64_t>(generated));
  }
  counters_.request_prompt_tokens.Observe(finished.usage.prompt_tokens);
  counters_.request_generation_tokens.Observe(generated);
  if (tracked.max_tokens > 0) counters_.request_max_tokens.Observe(tracked.max_tokens);
  if (tracked.first_token) {
    const double decode = Seconds(tracked.last_token - *tracked.first_token);
    counters_.decode_seconds.Observe(decode);
    if (generated > 1) counters_.time_per_output_token_seconds.Observe(decode / (generated - 1));
  }
  const double interval = std::min(Seconds(now - last_finish_), kMostRetryMs / 1000);
  finish_interval_ = finish_interval_ == 0
                         ? interval
                         : finish_interval_ + kNewestInterval * (interval - finish_interval_);
  last_finish_ = now;
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
  counters_.requests_paused.Set(static_cast<double>(paused_.size()));
  counters_.queue_tokens.Set(static_cast<double>(scheduler_.num_waiting_tokens()));
  counters_.prefill_rows.Set(budget_.PrefillRows(scheduler_.decoding()));
  counters_.retry_after_ms.Set(
      finish_interval_ == 0 ? kFirstRetryMs
                            : std::clamp(finish_interval_ * 1000, kLeastRetryMs, kMostRetryMs));
  counters_.pages_total.Set(limits_.scheduler.num_pages);
  counters_.pages_free.Set(scheduler_.num_free_pages());
  counters_.heartbeat_ms.store(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
          .count());
  PublishQueue();
}

void EngineLoop::PublishQueue() {
  const std::lock_guard lock(mutex_);
  waiting_ = scheduler_.num_waiting();
  waiting_tokens_ = scheduler_.num_waiting_tokens();
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
  AddArrived(std::move(unseen));
  const TimePoint now = Clock::now();
  while (!tracked_.empty()) {
    const auto emission = scheduler_.End(tracked_.begin()->first, FinishReason::kAborted);
    K3_CHECK(emission.has_value());
    Deliver(*emission, now);
  }
  Publish();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  idle_.notify_all();
}

}  // namespace k3::runtime
