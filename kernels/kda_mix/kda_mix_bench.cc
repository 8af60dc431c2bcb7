// KDA by the token and head: decode (one row) and prefill (whole chunks), with states that fit the
// second-level cache and states that do not. FLOPs are counted as the three products with S, 3 * 2
// * 128^2, whatever else is done; bytes as one read of S per row.
#include <algorithm>
#include <immintrin.h>

#include <benchmark/benchmark.h>

#include "kernels/kda_mix/kda_mix.h"
#include "kernels/kda_mix/kda_world.h"
#include "kernels/testing/cpu_sets.h"
#include "kernels/testing/roofline.h"

namespace k3::kernels {
namespace {

constexpr int kDim = 128;
constexpr double kFlops = 3.0 * 2 * kDim * kDim;
constexpr double kStateBytes = 4.0 * kDim * kDim;

[[gnu::target("avx2")]] float ReadOnce(const Buffer<float>& data) {
  __m256 sum[4] = {};
  for (std::int64_t i = 0; i < data.size(); i += 32)
    for (int j = 0; j < 4; ++j)
      sum[j] = _mm256_add_ps(sum[j], _mm256_load_ps(&data[i + std::int64_t{8} * j]));
  return _mm256_cvtss_f32(
      _mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
}

// Bytes per second of plain reads over 256 KB: beyond the first level, within the second.
double SecondLevelRoof(const ThreadTeam& team) {
  if (!__builtin_cpu_supports("avx2")) return 0;
  const Buffer<float> data(std::int64_t{64} * 1024);
  double best = 1;
  for (int i = 0; i < 2000; ++i) {
    const double start = NowSeconds(team);
    benchmark::DoNotOptimize(ReadOnce(data));
    best = std::min(best, NowSeconds(team) - start);
  }
  return static_cast<double>(data.size()) * 4 / best;
}

struct Roofs {
  Roofs() {
    ThreadTeam one(1);
    fma = FmaRoof(one);
    memory = ReadRoof(one);
    second_level = SecondLevelRoof(one);
  }
  double fma, memory, second_level;
};

const Roofs& MeasuredRoofs() {
  static const Roofs roofs;
  return roofs;
}

// Args: heads, rows per step.
void KdaMixOneThread(benchmark::State& state) {
  const auto heads = static_cast<int>(state.range(0));
  const auto rows = static_cast<int>(state.range(1));
  Random random(1);
  const KdaWeights weights(heads, kDim, random);
  const KdaStream stream(weights, 16 * std::max(16, rows), random);
  const ThreadTeam one(1);
  CpuRunner runner(1);
  const CpuOps& set = BestCpuSet();
  double spent = 0;
  const auto op = [&](const KdaMixArgs& args) {
    const double start = NowSeconds(one);
    runner.Run(set.kda_mix, args);
    spent = NowSeconds(one) - start;
  };
  KdaWorld world(weights, op, set.kda_window_bytes(KdaWorld::LayoutFor(weights)), 1, 2);
  KdaContext context = world.Start(stream, 0);
  // A whole chunk is what repeats: sixteen decode rows and their fold.
  double chunk = 0, best = 1e9;
  for ([[maybe_unused]] auto _ : state) {
    world.Step({{&context, rows}});
    chunk += spent;
    if (context.position % kGridTokens != 0) continue;
    best = std::min(best, chunk / std::max(rows, kGridTokens) / heads);
    chunk = 0;
    if (context.position + rows > stream.q.rows()) context.position = 0;
  }
  const Roofs& roofs = MeasuredRoofs();
  state.counters["us_token_head"] = best * 1e6;
  state.counters["fma_share"] = kFlops / best / roofs.fma;
  state.counters["l2_read_share"] = kStateBytes / best / roofs.second_level;
  state.counters["memory_read_share"] = kStateBytes / best / roofs.memory;
}
BENCHMARK(KdaMixOneThread)
    ->ArgNames({"heads", "rows"})
    ->Args({4, 1})
    ->Args({96, 1})
    ->Args({4, 128})
    ->Args({96, 128});

}  // namespace
}  // namespace k3::kernels
