#include "kernels/cpu_ops.h"
#include "kernels/simd/row_sums.h"

namespace k3::kernels::K3_ISA {
namespace {

// exps beyond n are zero, so that a padded sum may run over all of them.
void Softmax(float* s, int n) {
  float largest = s[0];
  for (int i = 1; i < n; ++i) largest = s[i] > largest ? s[i] : largest;
  for (int i = 0; i < n; ++i) s[i] = s[i] - largest;
  for (int i = 0; i < kMaxResidualSources; i += kLanes) Store(s + i, Exp(Load(s + i)));
  float sum = 0;
  for (int i = 0; i < n; ++i) sum = sum + s[i];
  for (int i = 0; i < n; ++i) s[i] = s[i] / sum;
}

void Probabilities(const ResidualNormArgs& args, std::int64_t row, float* p) {
  const std::int64_t count = args.out.cols;
  const float* score = args.score.Row<float>(0);
  for (int i = 0; i < args.num_sources; ++i) {
    const float* source = args.sources[i].Row<float>(row);
    const float mean = DotRow(source, source, count) / static_cast<float>(count);
    p[i] = DotRow(score, source, count) / __builtin_sqrtf(mean + args.eps);
  }
  Softmax(p, args.num_sources);
}

// Sixteen columns of the mix, sources ascending.
K3_INLINE F32x16 MixLanes(const float* const* sources, int n, const float* p, std::int64_t c,
                          int lanes) {
  const auto load = [&](int i) {
    return lanes == kLanes ? Load(sources[i] + c) : LoadFirst(sources[i] + c, lanes);
  };
  F32x16 m = load(0);
  if (n == 1) return m;  // p is exactly 1
  m = Mul(Set1(p[0]), m);
  for (int i = 1; i < n; ++i) m = Fma(Set1(p[i]), load(i), m);
  return m;
}

int LanesAt(std::int64_t c, std::int64_t count) {
  return static_cast<int>(count - c < kLanes ? count - c : kLanes);
}

void Mix(const ResidualNormArgs& args, std::int64_t row, const float* p, float* out) {
  const float* sources[kMaxResidualSources];
  for (int i = 0; i < args.num_sources; ++i) sources[i] = args.sources[i].Row<float>(row);
  for (std::int64_t c = 0; c < args.out.cols; c += kLanes) {
    const int lanes = LanesAt(c, args.out.cols);
    StoreFirst(out + c, MixLanes(sources, args.num_sources, p, c, lanes), lanes);
  }
}

K3_INLINE F32x16 WeightLanes(const ConstTensor& weight, std::int64_t c, int lanes) {
  if (weight.dtype == DType::kF32) return LoadFirst(weight.Row<float>(0) + c, lanes);
  const Bf16* w = weight.Row<Bf16>(0) + c;
  return lanes == kLanes ? LoadBf16(w) : LoadBf16First(w, lanes);
}

void Normalise(const ConstTensor& weight, float inverse, const float* mix, const Tensor& out,
               std::int64_t t) {
  float* y = out.Row<float>(t);
  for (std::int64_t c = 0; c < out.cols; c += kLanes) {
    const int lanes = LanesAt(c, out.cols);
    const F32x16 scaled = Mul(LoadFirst(mix + c, lanes), Set1(inverse));
    StoreFirst(y + c, Mul(scaled, WeightLanes(weight, c, lanes)), lanes);
  }
}

void Row(const ResidualNormArgs& args, std::int64_t t) {
  const std::int64_t row = args.gather == nullptr ? t : args.gather[t];
  float p[kMaxResidualSources] = {1.0F};
  if (args.num_sources > 1) Probabilities(args, row, p);
  float* mix = args.mix.empty() ? args.out.Row<float>(t) : args.mix.Row<float>(t);
  Mix(args, row, p, mix);
  Normalise(args.weight, InverseRms(mix, args.out.cols, args.eps), mix, args.out, t);
}

}  // namespace

void ResidualNorm(const ResidualNormArgs& args, CpuContext& context) {
  K3_CHECK(args.num_sources >= 1);
  K3_CHECK(args.num_sources <= kMaxResidualSources);
  ParallelFor(context.team, args.out.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) Row(args, t);
  });
}

}  // namespace k3::kernels::K3_ISA
