// Absorbed attention of one decode row, and of a prefill chunk, over a long context, as a share of
// the larger of its two roofs: FLOPs over the FMA peak, latent bytes over the read roof.
#include <algorithm>
#include <cstring>

#include <benchmark/benchmark.h>

#include "kernels/mla_attend/mla_attend.h"
#include "kernels/mla_attend/mla_world.h"
#include "kernels/testing/cpu_sets.h"
#include "kernels/testing/roofline.h"

namespace k3::kernels {
namespace {

// Args: heads, context, rows, threads.
void MlaAttendContext(benchmark::State& state) {
  const MlaShape shape = {
      .heads = static_cast<int>(state.range(0)), .nope = 128, .rope = 64, .v = 128, .kv = 512};
  const auto context_rows = static_cast<int>(state.range(1));
  const auto rows = static_cast<int>(state.range(2));
  const auto threads = static_cast<int>(state.range(3));
  Random random(1);
  const MlaWeights weights(shape, random);
  ThreadTeam team(threads);
  CpuRunner runner(threads);
  const CpuOps& set = BestCpuSet();
  double spent = 0;
  const auto op = [&](const MlaAttendArgs& args) {
    const double start = NowSeconds(team);
    runner.Run(set.mla_attend, args);
    spent = NowSeconds(team) - start;
  };
  MlaWorld world(weights, op, DType::kBf16, context_rows / kGridTokens + 1);
  const MlaStream stream(shape, rows, random);
  MlaContext context = world.StartAt(stream, context_rows - rows);
  double best = 1e9;
  for ([[maybe_unused]] auto _ : state) {
    world.Again(context, rows);
    best = std::min(best, spent);
  }
  const double pairs = static_cast<double>(shape.heads) * rows * (context_rows - (rows - 1) / 2.0);
  const double projections =
      static_cast<double>(shape.heads) * rows * shape.kv * (shape.nope + shape.v) * 2;
  const double flops = pairs * 2 * (shape.kv + shape.width()) + projections;
  const double bytes = static_cast<double>(context_rows) * shape.width() * 2 +
                       static_cast<double>(weights.kv_b.span().size_bytes());
  const double floor = std::max(flops / FmaRoof(team), bytes / ReadRoof(team));
  state.counters["ms"] = best * 1e3;
  state.counters["roof_share"] = floor / best;
  state.counters["gflops"] = flops / best / 1e9;
}
BENCHMARK(MlaAttendContext)
    ->ArgNames({"heads", "context", "rows", "threads"})
    ->Args({12, 4096, 1, 1})
    ->Args({12, 32768, 1, 1})
    ->Args({96, 4096, 1, 1})
    ->Args({2, 32768, 1, 2})
    ->Args({12, 2048, 128, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace k3::kernels
