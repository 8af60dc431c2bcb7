#include "kernels/cpu_ops.h"
#include "kernels/sample/sample_draw.h"
#include "kernels/simd/simd.h"

namespace k3::kernels::K3_ISA {
namespace {

// e^((logit - largest) / temperature): exactly 1 for the largest.
void Weigh(const float* logits, std::int32_t count, float largest, float temperature,
           float* weights) {
  for (std::int32_t id = 0; id < count; id += kLanes) {
    const int lanes = count - id < kLanes ? count - id : kLanes;
    const F32x16 distance = Sub(LoadFirst(logits + id, lanes), Set1(largest));
    StoreFirst(weights + id, Exp(Div(distance, Set1(temperature))), lanes);
  }
}

std::int32_t SampleToken(const SampleRow& row, const float* logits, std::int32_t count,
                         float* weights) {
  const Largest largest = FindLargest(row, logits, count);
  if (largest.id < 0 || row.temperature == 0) return largest.id;
  Weigh(logits, count, largest.logit, row.temperature, weights);
  return DrawToken(row, weights, count);
}

}  // namespace

void Sample(const SampleArgs& args, CpuContext& context) {
  K3_CHECK(args.vocab_limit <= args.logits.cols);
  const std::int64_t width = args.vocab_limit;
  float* weights = context.scratch.Take<float>(context.team.size() * width);
  std::int32_t* out = args.out.Row<std::int32_t>(0);
  ParallelForWorkers(context.team, args.logits.rows, 1,
                     [&](int worker, std::int64_t begin, std::int64_t end) {
                       for (std::int64_t n = begin; n < end; ++n) {
                         out[n] = SampleToken(args.rows[n], args.logits.Row<float>(n),
                                              args.vocab_limit, weights + worker * width);
                       }
                     });
}

}  // namespace k3::kernels::K3_ISA
