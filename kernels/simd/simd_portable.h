// F32x16 as an array: any x86-64. Slow where the machine has no fma (libm's software one is used),
// and equal to the bit.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/base/bf16.h"

namespace k3::kernels::K3_ISA {

struct F32x16 {
  float x[16];
};

#define K3_SIMD [[gnu::always_inline]] inline

template <typename F>
K3_SIMD F32x16 PerLane(const F& f) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.x[i] = f(i);
  return r;
}
K3_SIMD F32x16 Load(const float* p) {
  return PerLane([&](int i) { return p[i]; });
}
K3_SIMD F32x16 LoadFirst(const float* p, int n) {
  return PerLane([&](int i) { return i < n ? p[i] : 0.0F; });
}
K3_SIMD void Store(float* p, F32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = a.x[i];
}
K3_SIMD void StoreFirst(float* p, F32x16 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.x[i];
}
K3_SIMD F32x16 Set1(float x) {
  return PerLane([&](int) { return x; });
}
K3_SIMD F32x16 Zero() {
  return Set1(0.0F);
}
K3_SIMD F32x16 Add(F32x16 a, F32x16 b) {
  return PerLane([&](int i) { return a.x[i] + b.x[i]; });
}
K3_SIMD F32x16 Sub(F32x16 a, F32x16 b) {
  return PerLane([&](int i) { return a.x[i] - b.x[i]; });
}
K3_SIMD F32x16 Mul(F32x16 a, F32x16 b) {
  return PerLane([&](int i) { return a.x[i] * b.x[i]; });
}
K3_SIMD F32x16 Div(F32x16 a, F32x16 b) {
  return PerLane([&](int i) { return a.x[i] / b.x[i]; });
}
K3_SIMD F32x16 Sqrt(F32x16 a) {
  return PerLane([&](int i) { return __builtin_sqrtf(a.x[i]); });
}
K3_SIMD F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return PerLane([&](int i) { return __builtin_fmaf(a.x[i], b.x[i], c.x[i]); });
}
K3_SIMD F32x16 Max(F32x16 a, F32x16 b) {
  return PerLane([&](int i) { return a.x[i] > b.x[i] ? a.x[i] : b.x[i]; });
}
K3_SIMD F32x16 Min(F32x16 a, F32x16 b) {
  return PerLane([&](int i) { return a.x[i] < b.x[i] ? a.x[i] : b.x[i]; });
}
K3_SIMD F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 yes, F32x16 no) {
  return PerLane([&](int i) { return a.x[i] < b.x[i] ? yes.x[i] : no.x[i]; });
}
K3_SIMD F32x16 RoundToWhole(F32x16 a) {
  return PerLane([&](int i) { return __builtin_nearbyintf(a.x[i]); });
}
K3_SIMD F32x16 PowerOfTwo(F32x16 n) {
  return PerLane(
      [&](int i) { return std::bit_cast<float>((static_cast<std::int32_t>(n.x[i]) + 127) << 23); });
}
K3_SIMD F32x16 LoadBf16(const Bf16* p) {
  return PerLane([&](int i) { return ToFloat(p[i]); });
}
K3_SIMD F32x16 FromInt(const std::int32_t* p) {
  return PerLane([&](int i) { return static_cast<float>(p[i]); });
}

// Lanes by halves: i + (i + 8), then 4, 2, 1.
K3_SIMD float ReduceAdd(F32x16 a) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a.x[i] = a.x[i] + a.x[i + half];
  return a.x[0];
}

// One native register: what a GEMM keeps its sums in. Here the whole array.
using Register = F32x16;
inline constexpr int kRegisterLanes = 16;
K3_SIMD Register LoadRegister(const float* p) {
  return Load(p);
}
K3_SIMD void StoreRegister(float* p, Register a) {
  Store(p, a);
}
K3_SIMD Register ZeroRegister() {
  return Zero();
}
K3_SIMD Register AddRegister(Register a, Register b) {
  return Add(a, b);
}
K3_SIMD Register FmaRegister(Register a, Register b, Register c) {
  return Fma(a, b, c);
}
K3_SIMD Register LoadBf16Register(const Bf16* p) {
  return LoadBf16(p);
}

// out[j] lane i = p[4 i + j]: sixteen groups of four, taken apart.
K3_SIMD void LoadInterleaved(const float* p, F32x16 (&out)[4]) {
  for (int j = 0; j < 4; ++j) out[j] = PerLane([&](int i) { return p[4 * i + j]; });
}

#undef K3_SIMD

}  // namespace k3::kernels::K3_ISA
