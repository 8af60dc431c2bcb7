// What deciding costs: one step of the scheduler with everyone decoding, without an executor.
#include <algorithm>
#include <chrono>
#include <vector>

#include <benchmark/benchmark.h>

#include "runtime/schedule/scheduler.h"

namespace k3::runtime {
namespace {

using Clock = std::chrono::steady_clock;

StepResult Answer(const Plan& plan) {
  StepResult result;
  for (const PlanRun& run : plan.runs) {
    result.tokens.push_back(run.sample ? std::optional(NewToken{.id = 5, .logprobs = {}})
                                       : std::nullopt);
  }
  return result;
}

// Arguments: sequences, and how many more wait. p50 and p99 are of Next and Advance together.
void DecodeStep(benchmark::State& state) {
  const int sequences = static_cast<int>(state.range(0));
  const int waiting = static_cast<int>(state.range(1));
  Scheduler scheduler({.max_num_seqs = sequences,
                       .max_num_batched_tokens = 4 * sequences,
                       .max_queued_requests = sequences + waiting,
                       .max_model_len = 1 << 20,
                       .state_pages = 1104,
                       .num_pages = 2 << 20,
                       .vocab_size = 100});
  for (int i = 0; i < sequences + waiting; ++i) {
    const Request request{.prompt = std::vector<Token>(100, 3)};
    K3_CHECK(scheduler.Add(static_cast<RequestId>(i), request).ok());
  }
  while (!scheduler.decoding() || scheduler.num_running() < sequences) {
    scheduler.Advance(Answer(scheduler.Next(4 * sequences)));
  }
  std::vector<double> micros;
  for (auto _ : state) {
    const Clock::time_point begin = Clock::now();
    const Plan& plan = scheduler.Next(4 * sequences);
    const Clock::time_point planned = Clock::now();
    const StepResult result = Answer(plan);  // not the scheduler's time
    const Clock::time_point answered = Clock::now();
    benchmark::DoNotOptimize(scheduler.Advance(result));
    const auto spent = (planned - begin) + (Clock::now() - answered);
    micros.push_back(std::chrono::duration<double, std::micro>(spent).count());
    state.SetIterationTime(micros.back() / 1e6);
  }
  std::sort(micros.begin(), micros.end());
  state.counters["p50_us"] = micros[micros.size() / 2];
  state.counters["p99_us"] = micros[micros.size() * 99 / 100];
}
BENCHMARK(DecodeStep)
    ->Args({16, 0})
    ->Args({256, 0})
    ->Args({256, 256})
    ->UseManualTime()
    ->Iterations(4000);

}  // namespace
}  // namespace k3::runtime
