// Sixteen floats, the same sixteen on every machine: one __m512, two __m256, or an array. An op's
// `x_cpu.cc` is written once over F32x16 and built once per instruction set; since every function
// here is a correctly rounded IEEE operation lane by lane (or a fixed sequence of those), the bits
// are equal in all of them.
//   1. Everything is always_inline and lives in the instruction set's own namespace (K3_ISA): an
//      object built for AVX-512 must not export code that the linker may pick for everyone.
//   2. No std templates in files that include this one.
#pragma once
#include <cstdint>

#include "kernels/base/bf16.h"

#ifndef K3_ISA
#error "built only as part of an instruction-set object library: see kernels/CMakeLists.txt"
#endif

#if defined(__AVX512F__) || defined(K3_EMULATE_AVX512)
#include "kernels/simd/simd_avx512.h"  // IWYU pragma: export
#elif defined(__AVX2__) && defined(__FMA__)
#include "kernels/simd/simd_avx2.h"  // IWYU pragma: export
#else
#include "kernels/simd/simd_portable.h"  // IWYU pragma: export
#endif

#define K3_INLINE [[gnu::always_inline]] inline

namespace k3::kernels::K3_ISA {

inline constexpr int kLanes = 16;

K3_INLINE F32x16 Neg(F32x16 x) {
  return Sub(Set1(-0.0F), x);
}

// x * 2^n for whole n, in two exact steps, so that results in the subnormal range round the same
// way everywhere. n is clamped to +-252.
K3_INLINE F32x16 ScaleByPowerOfTwo(F32x16 x, F32x16 n) {
  n = Max(Min(n, Set1(252.0F)), Set1(-252.0F));
  const F32x16 half = RoundToWhole(Mul(n, Set1(0.5F)));
  return Mul(Mul(x, PowerOfTwo(half)), PowerOfTwo(Sub(n, half)));
}

// e^x * 2^shift, relative error 1e-7 in the normal range. Cody-Waite reduction, degree-6
// polynomial. `shift` moves the exponent only (see kernels notes 2.4 on why KDA wants that).
K3_INLINE F32x16 Exp(F32x16 x, float shift = 0.0F) {
  // Keeps n finite: below, every result is 0; above, infinity (2^252 * 2^252 would be too, but inf
  // - inf is not). x comes second, so that a NaN stays one: a damaged row must not look healthy.
  x = Max(Set1(-200.0F), Min(Set1(200.0F), x));
  const F32x16 n = RoundToWhole(Mul(x, Set1(1.44269504F)));
  F32x16 r = Fma(n, Set1(-0.693359375F), x);
  r = Fma(n, Set1(2.12194440e-4F), r);
  F32x16 p = Set1(1.9875691500e-4F);
  p = Fma(p, r, Set1(1.3981999507e-3F));
  p = Fma(p, r, Set1(8.3334519073e-3F));
  p = Fma(p, r, Set1(4.1665795894e-2F));
  p = Fma(p, r, Set1(1.6666665459e-1F));
  p = Fma(p, r, Set1(5.0000001201e-1F));
  p = Fma(p, Mul(r, r), Add(r, Set1(1.0F)));
  return ScaleByPowerOfTwo(p, Add(n, Set1(shift)));
}

K3_INLINE F32x16 Sigmoid(F32x16 x) {
  return Div(Set1(1.0F), Add(Set1(1.0F), Exp(Neg(x))));
}

// Odd polynomial near zero, where 1 - 2 / (e^2x + 1) would cancel.
K3_INLINE F32x16 Tanh(F32x16 x) {
  const F32x16 magnitude = Max(x, Neg(x));
  const F32x16 x2 = Mul(x, x);
  F32x16 p = Set1(-5.70498872745e-3F);
  p = Fma(p, x2, Set1(2.06390887954e-2F));
  p = Fma(p, x2, Set1(-5.37397155531e-2F));
  p = Fma(p, x2, Set1(1.33314422036e-1F));
  p = Fma(p, x2, Set1(-3.33332819422e-1F));
  const F32x16 small = Fma(Mul(p, x2), x, x);
  const F32x16 e = Exp(Add(magnitude, magnitude));
  const F32x16 large = Sub(Set1(1.0F), Div(Set1(2.0F), Add(e, Set1(1.0F))));
  return SelectLess(magnitude, Set1(0.625F), small, SelectLess(x, Zero(), Neg(large), large));
}

K3_INLINE F32x16 Silu(F32x16 x) {
  return Mul(x, Sigmoid(x));
}

// The first n of sixteen, zeros behind them; memory beyond p[n - 1] is not read.
K3_INLINE F32x16 LoadBf16First(const Bf16* p, int n) {
  Bf16 some[kLanes] = {};
  for (int i = 0; i < n; ++i) some[i] = p[i];
  return LoadBf16(some);
}

// beta tanh(g / beta) sigmoid(g) * linear_beta tanh(u / linear_beta); the sigmoid takes the raw g.
K3_INLINE F32x16 Situ(F32x16 g, F32x16 u, float beta, float linear_beta) {
  const F32x16 gate = Mul(Mul(Set1(beta), Tanh(Div(g, Set1(beta)))), Sigmoid(g));
  return Mul(gate, Mul(Set1(linear_beta), Tanh(Div(u, Set1(linear_beta)))));
}

}  // namespace k3::kernels::K3_ISA
