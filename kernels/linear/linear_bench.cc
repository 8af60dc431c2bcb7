// Linear as a share of what this machine can do, roofs measured in the same process a moment
// before: GEMV from DRAM against a plain read loop, GEMM against a loop of fma.
#include <algorithm>
#include <cmath>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/testing/buffer.h"
#include "kernels/testing/cpu_sets.h"
#include "kernels/testing/random.h"
#include "kernels/testing/roofline.h"

namespace k3::kernels {
namespace {

constexpr std::int64_t kInputs = 7168;
constexpr int kWeights = 6;  // 176 MB each: no cache holds what the next call reads
constexpr std::int64_t kOutputs = 12288;

const std::vector<Matrix<Bf16>>& Weights() {
  static const std::vector<Matrix<Bf16>> weights = [] {
    std::vector<Matrix<Bf16>> made;
    for (int i = 0; i < kWeights; ++i) {
      made.emplace_back(kOutputs, kInputs);
      for (std::size_t j = 0; j < made.back().span().size(); ++j)
        made.back().span()[j] = {static_cast<std::uint16_t>(0x3c00U + j * 2654435761U % 0x80U)};
    }
    return made;
  }();
  return weights;
}

void RunLinear(benchmark::State& state) {
  const std::int64_t rows = state.range(0);
  ThreadTeam team(static_cast<int>(state.range(1)));
  Scratch scratch;
  CpuContext context{team, scratch};
  Random random(1);
  Matrix<float> x(rows, kInputs), out(rows, kOutputs);
  random.FillNormal(x.span());
  const std::vector<Matrix<Bf16>>& weights = Weights();
  const double read_roof = ReadRoof(team);
  const double fma_roof = FmaRoof(team);
  double best = 1e9;
  std::size_t next = 0;
  for (auto _ : state) {
    const LinearSegment segment{weights[next].view(), {}, out.view(), false};
    next = (next + 1) % weights.size();
    const double start = NowSeconds(team);
    BestCpuSet().linear({x.view(), {}, 0, 0, 0, &segment, 1}, context);
    best = std::min(best, NowSeconds(team) - start);
    scratch.Reset();
  }
  const double bytes = static_cast<double>(kInputs * kOutputs) * sizeof(Bf16);
  const double flops = static_cast<double>(2 * rows * kInputs * kOutputs);
  state.counters["GB/s"] = bytes / best / 1e9;
  state.counters["read_roof"] = read_roof / 1e9;
  state.counters["read_share"] = bytes / best / read_roof;
  state.counters["GFLOP/s"] = flops / best / 1e9;
  state.counters["fma_roof"] = fma_roof / 1e9;
  state.counters["fma_share"] = flops / best / fma_roof;
}
BENCHMARK(RunLinear)
    ->ArgNames({"M", "threads"})
    ->ArgsProduct({{1, 2, 4, 5, 8, 16, 64, 256}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->MinTime(0.7)
    ->UseRealTime();

}  // namespace
}  // namespace k3::kernels
