#include "kernels/cpu_ops.h"
#include "kernels/sample/sample_draw.h"
#include "kernels/sample/sample_logprobs.h"
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

// `memory` [count] holds the edited logits, and in their place the weights.
std::int32_t SampleToken(const SampleRow& row, const float* raw, std::int32_t count,
                         float* memory) {
  const float* logits = Edited(row, raw, count, memory);
  const Largest largest = FindLargest(row, logits, count);
  if (largest.id < 0 || row.temperature == 0) return largest.id;
  Weigh(logits, count, largest.logit, row.temperature, memory);
  return DrawToken(row, memory, count);
}

// The sum of e^(logit - largest): lane i takes ids i mod 16 in ascending order, lanes by halves.
double SumOfExponentials(const float* logits, std::int32_t count, float largest) {
  double sum[kLanes] = {};
  for (std::int32_t id = 0; id < count; id += kLanes) {
    const int lanes = count - id < kLanes ? count - id : kLanes;
    float terms[kLanes];
    Store(terms, Exp(Sub(LoadFirst(logits + id, lanes), Set1(largest))));
    for (int i = lanes; i < kLanes; ++i) terms[i] = 0;
    for (int i = 0; i < kLanes; ++i) sum[i] += static_cast<double>(terms[i]);
  }
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
  return sum[0];
}

void LogprobsOfRow(const SampleArgs& args, std::int64_t n) {
  const float* logits = args.logits.Row<float>(n);
  const Largest largest = FindLargest(SampleRow{}, logits, args.vocab_limit);
  if (largest.id < 0) return WriteNoLogprobs(args, n);
  const double sum = SumOfExponentials(logits, args.vocab_limit, largest.logit);
  WriteLogprobs(args, n, static_cast<double>(largest.logit) + NaturalLog(sum));
}

}  // namespace

void Sample(const SampleArgs& args, CpuContext& context) {
  K3_CHECK(args.vocab_limit <= args.logits.cols);
  const std::int64_t width = args.vocab_limit;
  float* memory = context.scratch.Take<float>(context.team.size() * width);
  std::int32_t* out = args.out.Row<std::int32_t>(0);
  ParallelForWorkers(context.team, args.logits.rows, 1,
                     [&](int worker, std::int64_t begin, std::int64_t end) {
                       for (std::int64_t n = begin; n < end; ++n) {
                         out[n] = SampleToken(args.rows[n], args.logits.Row<float>(n),
                                              args.vocab_limit, memory + worker * width);
                         if (!args.logprobs.empty()) LogprobsOfRow(args, n);
                       }
                     });
}

}  // namespace k3::kernels::K3_ISA
