// F32x16 as two 256-bit registers: lanes 0..7 and 8..15.
#pragma once
#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#include "kernels/base/bf16.h"

namespace k3::kernels::K3_ISA {

struct F32x16 {
  __m256 lo, hi;
};

#define K3_SIMD [[gnu::always_inline]] inline

// All bits set in lanes first..first+7 that lie below n.
K3_SIMD __m256i LanesBelow(int n, int first) {
  const __m256i lane =
      _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
}
K3_SIMD F32x16 Load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
K3_SIMD F32x16 LoadFirst(const float* p, int n) {
  return {_mm256_maskload_ps(p, LanesBelow(n, 0)), _mm256_maskload_ps(p + 8, LanesBelow(n, 8))};
}
K3_SIMD void Store(float* p, F32x16 x) {
  _mm256_storeu_ps(p, x.lo);
  _mm256_storeu_ps(p + 8, x.hi);
}
K3_SIMD void StoreFirst(float* p, F32x16 x, int n) {
  _mm256_maskstore_ps(p, LanesBelow(n, 0), x.lo);
  _mm256_maskstore_ps(p + 8, LanesBelow(n, 8), x.hi);
}
K3_SIMD F32x16 Set1(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
K3_SIMD F32x16 Zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
K3_SIMD F32x16 Add(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
K3_SIMD F32x16 Sub(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
K3_SIMD F32x16 Mul(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
K3_SIMD F32x16 Div(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
K3_SIMD F32x16 Sqrt(F32x16 a) {
  return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
K3_SIMD F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
K3_SIMD F32x16 Max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
K3_SIMD F32x16 Min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
K3_SIMD F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 yes, F32x16 no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(no.hi, yes.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
K3_SIMD F32x16 RoundToWhole(F32x16 a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kMode), _mm256_round_ps(a.hi, kMode)};
}
K3_SIMD __m256 PowerOfTwo8(__m256 n) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}
K3_SIMD F32x16 PowerOfTwo(F32x16 n) {
  return {PowerOfTwo8(n.lo), PowerOfTwo8(n.hi)};
}
K3_SIMD __m256 Widen8(const Bf16* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
K3_SIMD F32x16 LoadBf16(const Bf16* p) {
  return {Widen8(p), Widen8(p + 8)};
}
K3_SIMD F32x16 FromInt(const std::int32_t* p) {
  const auto* q = reinterpret_cast<const __m256i*>(p);
  return {_mm256_cvtepi32_ps(_mm256_loadu_si256(q)), _mm256_cvtepi32_ps(_mm256_loadu_si256(q + 1))};
}

// Lanes by halves: i + (i + 8), then 4, 2, 1.
K3_SIMD float ReduceAdd(F32x16 a) {
  const __m256 by8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}

// One native register: what a GEMM keeps its sums in. kRegisterLanes of them make a lane group.
using Register = __m256;
inline constexpr int kRegisterLanes = 8;
K3_SIMD Register LoadRegister(const float* p) {
  return _mm256_loadu_ps(p);
}
K3_SIMD void StoreRegister(float* p, Register a) {
  _mm256_storeu_ps(p, a);
}
K3_SIMD Register ZeroRegister() {
  return _mm256_setzero_ps();
}
K3_SIMD Register AddRegister(Register a, Register b) {
  return _mm256_add_ps(a, b);
}
K3_SIMD Register FmaRegister(Register a, Register b, Register c) {
  return _mm256_fmadd_ps(a, b, c);
}
K3_SIMD Register LoadBf16Register(const Bf16* p) {
  return Widen8(p);
}

// Group i and group i + 4 as the halves of one register.
K3_SIMD __m256 TwoGroups(const float* p, std::ptrdiff_t i) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 4 * i)),
                              _mm_loadu_ps(p + 4 * i + 16), 1);
}
K3_SIMD void TakeApart8(const float* p, __m256 (&out)[4]) {
  const __m256 g0 = TwoGroups(p, 0), g1 = TwoGroups(p, 1);
  const __m256 g2 = TwoGroups(p, 2), g3 = TwoGroups(p, 3);
  const __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(g0, g1));
  const __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(g2, g3));
  const __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(g0, g1));
  const __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(g2, g3));
  out[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(low01, low23));
  out[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low01, low23));
  out[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(high01, high23));
  out[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(high01, high23));
}
// out[j] lane i = p[4 i + j]: sixteen groups of four, taken apart.
K3_SIMD void LoadInterleaved(const float* p, F32x16 (&out)[4]) {
  __m256 low[4], high[4];
  TakeApart8(p, low);
  TakeApart8(p + 32, high);
  for (int j = 0; j < 4; ++j) out[j] = {low[j], high[j]};
}

#undef K3_SIMD

}  // namespace k3::kernels::K3_ISA
