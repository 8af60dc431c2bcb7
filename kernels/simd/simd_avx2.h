// F32x16 as two 256-bit registers: lanes 0..7 and 8..15.
#pragma once
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

#undef K3_SIMD

}  // namespace k3::kernels::K3_ISA
