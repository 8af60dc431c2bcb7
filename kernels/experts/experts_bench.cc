// Routed experts as a share of the read roof: weights of every chosen expert are read once.
#include <algorithm>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/testing/buffer.h"
#include "kernels/testing/cpu_sets.h"
#include "kernels/testing/random.h"
#include "kernels/testing/roofline.h"

namespace k3::kernels {
namespace {

constexpr std::int64_t kLatent = 3584;
constexpr std::int64_t kWidth = 3072;
constexpr int kExperts = 64;  // 17.5 MB each
constexpr int kSlots = 16;

struct Weight {
  Weight(std::int64_t out, std::int64_t in) : packed(out, in / 2), scale(out, in / 32) {
    for (std::size_t i = 0; i < packed.span().size(); ++i)
      packed.span()[i] = static_cast<std::uint8_t>(i * 2654435761U >> 13);
    std::fill(scale.span().begin(), scale.span().end(), std::uint8_t{120});
  }
  Mxfp4Weight view() const { return {packed.view(), scale.view()}; }
  Matrix<std::uint8_t> packed, scale;
};

const std::vector<ExpertWeights>& Experts() {
  static std::vector<Weight> owned;
  static const std::vector<ExpertWeights> experts = [] {
    for (int e = 0; e < kExperts; ++e) {
      owned.emplace_back(kWidth, kLatent);
      owned.emplace_back(kWidth, kLatent);
      owned.emplace_back(kLatent, kWidth);
    }
    std::vector<ExpertWeights> made;
    for (std::size_t i = 0; i < owned.size(); i += 3)
      made.push_back({owned[i].view(), owned[i + 1].view(), owned[i + 2].view()});
    return made;
  }();
  return experts;
}

// Every row chooses 16 of the 64, another 16 in every call, so that nothing stays in a cache.
void Choose(Matrix<std::int32_t>& ids, int call) {
  for (std::int64_t t = 0; t < ids.rows(); ++t) {
    const int first = static_cast<int>(t + call) % (kExperts / kSlots);
    for (int j = 0; j < kSlots; ++j) ids.At(t, j) = first + j * (kExperts / kSlots);
  }
}

void RunExperts(benchmark::State& state) {
  const std::int64_t rows = state.range(0);
  ThreadTeam team(static_cast<int>(state.range(1)));
  Scratch scratch;
  CpuContext context{team, scratch};
  Random random(1);
  Matrix<float> x(rows, kLatent), weights(rows, kSlots), out(rows, kLatent);
  Matrix<std::int32_t> ids(rows, kSlots);
  random.FillNormal(x.span());
  for (float& weight : weights.span()) weight = 1.0F / kSlots;
  const std::vector<ExpertWeights>& experts = Experts();
  const double read_roof = ReadRoof(team);
  const double fma_roof = FmaRoof(team);
  double best = 1e9;
  int call = 0;
  for (auto _ : state) {
    Choose(ids, call++);
    const double start = NowSeconds(team);
    BestCpuSet().experts(
        {x.view(), ids.view(), weights.view(), experts.data(), kExperts, 4, 25, out.view()},
        context);
    best = std::min(best, NowSeconds(team) - start);
    scratch.Reset();
  }
  const auto groups = static_cast<double>(std::min<std::int64_t>(rows, kExperts / kSlots));
  const double one = 3.0 * kLatent * kWidth;
  const double bytes = groups * kSlots * one * 17 / 32;
  const double flops = 2.0 * static_cast<double>(rows) * kSlots * one;
  state.counters["GB/s"] = bytes / best / 1e9;
  state.counters["read_roof"] = read_roof / 1e9;
  state.counters["read_share"] = bytes / best / read_roof;
  state.counters["GFLOP/s"] = flops / best / 1e9;
  state.counters["fma_roof"] = fma_roof / 1e9;
  state.counters["fma_share"] = flops / best / fma_roof;
}
BENCHMARK(RunExperts)
    ->ArgNames({"M", "threads"})
    ->ArgsProduct({{1, 8, 64}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->MinTime(0.7)
    ->UseRealTime();

}  // namespace
}  // namespace k3::kernels
