// Sums over a row, in the one order of this house: element i goes to lane i mod 16 of accumulator
// (i / 16) mod 4, fma chains ascending, ((a0 + a1) + (a2 + a3)), lanes by halves.
#pragma once
#include "kernels/simd/simd.h"

namespace k3::kernels::K3_ISA {

inline constexpr int kAccumulators = 4;
inline constexpr int kStep = kLanes * kAccumulators;

K3_INLINE float CombineSums(const F32x16 (&a)[kAccumulators]) {
  return ReduceAdd(Add(Add(a[0], a[1]), Add(a[2], a[3])));
}

// sum of a[i] * b[i]. A row that ends inside a step is continued with zeros.
K3_INLINE float DotRow(const float* a, const float* b, std::int64_t count) {
  F32x16 sum[kAccumulators] = {Zero(), Zero(), Zero(), Zero()};
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep)
    for (std::int64_t j = 0; j < kAccumulators; ++j)
      sum[j] = Fma(Load(a + i + std::int64_t{kLanes} * j), Load(b + i + std::int64_t{kLanes} * j),
                   sum[j]);
  for (int j = 0; i < count; ++j, i += kLanes) {
    const auto left = static_cast<int>(count - i < kLanes ? count - i : kLanes);
    sum[j] = Fma(LoadFirst(a + i, left), LoadFirst(b + i, left), sum[j]);
  }
  return CombineSums(sum);
}

// 1 / sqrt(mean(x^2) + eps).
K3_INLINE float InverseRms(const float* x, std::int64_t count, float eps) {
  const float mean = DotRow(x, x, count) / static_cast<float>(count);
  return 1.0F / __builtin_sqrtf(mean + eps);
}

}  // namespace k3::kernels::K3_ISA
