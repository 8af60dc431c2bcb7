// One row of K3's vocabulary on one thread: greedy, nucleus, and the same nucleus with what a
// client may add to it. `plain_ratio` is the time over that of the plain nucleus row.
#include <algorithm>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/sample/sample.h"
#include "kernels/testing/buffer.h"
#include "kernels/testing/cpu_sets.h"
#include "kernels/testing/random.h"
#include "kernels/testing/roofline.h"

namespace k3::kernels {
namespace {

constexpr int kVocabulary = 163840;
constexpr int kMostLikely = 20;
constexpr int kNoLogprobs = -1;

class Bench {
 public:
  Bench()
      : logits_(1, kVocabulary),
        token_(1, 1),
        logprobs_(1, 1 + kMostLikely),
        top_ids_(1, kMostLikely) {
    Random random(1);
    random.FillNormal(logits_.span(), 3);
  }
  double Seconds(const SampleRow& row, int top) {
    SampleArgs args{logits_.view(), &row, kVocabulary, token_.view()};
    if (top != kNoLogprobs) {
      args.logprobs = View(logprobs_.Row(0), 1, 1 + top);
      args.top_ids = View(top_ids_.Row(0), 1, top);
    }
    CpuContext context{team_, scratch_};
    const double start = NowSeconds(team_);
    BestCpuSet().sample(args, context);
    const double seconds = NowSeconds(team_) - start;
    scratch_.Reset();
    return seconds;
  }

 private:
  Matrix<float> logits_;
  Matrix<std::int32_t> token_;
  Matrix<float> logprobs_;
  Matrix<std::int32_t> top_ids_;
  ThreadTeam team_{1};
  Scratch scratch_;
};

constexpr SampleRow kNucleus{.temperature = 0.7F, .top_p = 0.95F};

void Report(benchmark::State& state, const SampleRow& row, int top) {
  Bench bench;
  double seconds = 1e9, plain = 1e9;
  for ([[maybe_unused]] auto _ : state) {
    seconds = std::min(seconds, bench.Seconds(row, top));
    plain = std::min(plain, bench.Seconds(kNucleus, kNoLogprobs));
  }
  state.counters["us"] = seconds * 1e6;
  state.counters["plain_ratio"] = seconds / plain;
}

void SampleGreedy(benchmark::State& state) {
  Report(state, {}, kNoLogprobs);
}
BENCHMARK(SampleGreedy)->Iterations(100);

void SampleNucleus(benchmark::State& state) {
  Report(state, kNucleus, kNoLogprobs);
}
BENCHMARK(SampleNucleus)->Iterations(100);

void SampleTopK(benchmark::State& state) {
  SampleRow row = kNucleus;
  row.min_p = 0.01F;
  row.top_k = 40;
  Report(state, row, kNoLogprobs);
}
BENCHMARK(SampleTopK)->Iterations(100);

// Penalties on 4096 tokens of context. Args: likeliest ids asked for, -1 for no log probabilities.
void SamplePenalties(benchmark::State& state) {
  std::vector<LogitEdit> edits(4096);
  std::int32_t id = 0;
  for (LogitEdit& edit : edits) {
    edit = {.id = id, .repetition = 1.1F, .minus = 0.5F};
    id += kVocabulary / 4096;
  }
  SampleRow row = kNucleus;
  row.edits = edits.data();
  row.num_edits = static_cast<int>(edits.size());
  Report(state, row, static_cast<int>(state.range(0)));
}
BENCHMARK(SamplePenalties)->ArgName("top")->Arg(-1)->Arg(0)->Arg(20)->Iterations(100);

}  // namespace
}  // namespace k3::kernels
