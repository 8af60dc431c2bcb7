// Plain counters the engine writes and anyone may read. Names and units follow the metrics table;
// the server turns them into Prometheus series.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/schedule/plan.h"

namespace k3::runtime {

// Monotonic where the name says total; relaxed everywhere: a scrape is a glance, not a snapshot.
class Counter {
 public:
  void Add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Counts by upper bound, plus the sum; `kBounds` ascending, one more bucket for +Inf.
template <std::size_t N>
class Histogram {
 public:
  explicit constexpr Histogram(const std::array<double, N>& bounds) : bounds_(bounds) {}
  void Observe(double value) {
    std::size_t i = 0;
    while (i < N && value > bounds_[i]) ++i;
    counts_[i].Add();
    double sum = sum_.load(std::memory_order_relaxed);
    while (!sum_.compare_exchange_weak(sum, sum + value, std::memory_order_relaxed)) {
    }
  }
  const std::array<double, N>& bounds() const { return bounds_; }
  std::uint64_t count(std::size_t bucket) const {
    return counts_[bucket].value();
  }  // not cumulative
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::array<double, N> bounds_;
  std::array<Counter, N + 1> counts_;
  std::atomic<double> sum_{0};
};

inline constexpr std::array kTtftBounds = {.001, .005, .01, .02,  .04,  .06,  .08, .1,
                                           .25,  .5,   .75, 1.,   2.5,  5.,   7.5, 10.,
                                           20.,  40.,  80., 160., 640., 2560.};
inline constexpr std::array kInterTokenBounds = {.002, .005, .01, .025, .05, .075, .1,
                                                 .15,  .2,   .3,  .4,   .5,  .75,  1.,
                                                 2.5,  5.,   7.5, 10.,  20., 40.,  80.};
inline constexpr std::array kDurationBounds = {.05, .1,  .2,   .3,   .5,   .8,   1.,    1.5,
                                               2.,  2.5, 5.,   10.,  15.,  20.,  30.,   40.,
                                               50., 60., 120., 240., 480., 960., 1920., 7680.};
inline constexpr std::array kStepBounds = {.0005, .001, .002, .005, .01, .02, .05,
                                           .1,    .2,   .5,   1.,   2.,  5.};

inline constexpr std::array kBatchTokenBounds = {
    1., 2., 4., 8., 16., 32., 64., 128., 256., 512., 1024., 2048., 4096., 8192., 16384.};
inline constexpr std::array kBatchSequenceBounds = {1.,  2.,   4.,   8.,   16.,  32.,
                                                    64., 128., 256., 512., 1024.};
inline constexpr std::array kOverheadBounds = {.00005, .0001, .00025, .0005, .001, .0025,
                                               .005,   .01,   .025,   .05,   .1};
inline constexpr std::array kAbortBounds = {.001, .0025, .005, .01, .025, .05,
                                            .1,   .25,   .5,   1.,  2.5,  5.};
inline constexpr std::array kImbalanceBounds = {1., 1.1, 1.25, 1.5, 2., 3., 5., 10.};
inline constexpr std::array kActiveExpertBounds = {8., 16., 32., 64., 128., 256., 512., 896.};
inline constexpr std::array kTokenCountBounds = {
    1.,    2.,    5.,     10.,    20.,    50.,     100.,    200.,    500.,    1000.,
    2000., 5000., 10000., 20000., 50000., 100000., 200000., 500000., 1048576.};

enum class StepKind : std::uint8_t { kPrefill, kDecode, kMixed };
inline constexpr int kNumStepKinds = 3;

// What the engine thread does around a step.
enum class OverheadPhase : std::uint8_t { kSchedule, kEmit };
inline constexpr int kNumOverheadPhases = 2;

struct StepCounters {
  Counter steps;
  Histogram<kStepBounds.size()> seconds{kStepBounds};
  Histogram<kBatchTokenBounds.size()> batch_tokens{kBatchTokenBounds};
  Histogram<kBatchSequenceBounds.size()> batch_sequences{kBatchSequenceBounds};
  Histogram<kActiveExpertBounds.size()> active_experts{kActiveExpertBounds};
};

struct EngineCounters {
  std::array<Counter, kNumFinishReasons> requests_finished;  // by FinishReason
  Counter prompt_tokens_computed;  // prompt tokens prefilled for a first token
  Counter prompt_tokens_cached;
  Counter recomputed_tokens;  // after a preemption
  Counter generation_tokens;
  Counter preemptions;
  Counter nan_logits;
  Gauge requests_running, requests_waiting, requests_paused;  // running: the paused ones too
  Gauge queue_tokens;                                         // to be computed for waiting requests
  Gauge prefill_rows;    // what a step may prefill now, for the target latency
  Gauge retry_after_ms;  // when a full queue will probably have room
  Gauge pages_total, pages_free;
  std::array<StepCounters, kNumStepKinds> steps;  // by StepKind
  std::array<Histogram<kOverheadBounds.size()>, kNumOverheadPhases> overhead_seconds{
      Histogram{kOverheadBounds}, Histogram{kOverheadBounds}};
  std::array<Counter, kExpertLayerGroups> expert_tokens;
  Histogram<kImbalanceBounds.size()> expert_imbalance{kImbalanceBounds};
  Gauge expert_imbalance_now;
  Histogram<kTtftBounds.size()> time_to_first_token_seconds{kTtftBounds};
  Histogram<kInterTokenBounds.size()> inter_token_latency_seconds{kInterTokenBounds};
  Histogram<kInterTokenBounds.size()> time_per_output_token_seconds{kInterTokenBounds};
  Histogram<kDurationBounds.size()> queue_seconds{kDurationBounds};
  Histogram<kDurationBounds.size()> prefill_seconds{kDurationBounds};  // admission to first token
  Histogram<kDurationBounds.size()> decode_seconds{kDurationBounds};   // first token to last
  Histogram<kAbortBounds.size()> abort_seconds{kAbortBounds};          // Cancel to freed pages
  Histogram<kTokenCountBounds.size()> request_prompt_tokens{kTokenCountBounds};
  Histogram<kTokenCountBounds.size()> request_generation_tokens{kTokenCountBounds};
  Histogram<kTokenCountBounds.size()> request_max_tokens{kTokenCountBounds};
  std::atomic<std::int64_t> heartbeat_ms{0};  // steady clock, each turn of the engine's loop
};

}  // namespace k3::runtime
