// F32x16 as one 512-bit register. With K3_EMULATE_AVX512 the same intrinsics are computed by
// SIMDe, so a machine without AVX-512 can still test this very source.
#pragma once
#include <cstdint>

#include "kernels/base/bf16.h"

#ifdef K3_EMULATE_AVX512
#include "kernels/simd/avx512_emulated.h"
#else
#include <immintrin.h>
#endif

namespace k3::kernels::K3_ISA {

struct F32x16 {
  __m512 v;
};

#define K3_SIMD [[gnu::always_inline]] inline

K3_SIMD __mmask16 FirstLanes(int n) {
  return static_cast<__mmask16>((1U << n) - 1U);
}
K3_SIMD F32x16 Load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
K3_SIMD F32x16 LoadFirst(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(FirstLanes(n), p)};
}
K3_SIMD void Store(float* p, F32x16 x) {
  _mm512_storeu_ps(p, x.v);
}
K3_SIMD void StoreFirst(float* p, F32x16 x, int n) {
  _mm512_mask_storeu_ps(p, FirstLanes(n), x.v);
}
K3_SIMD F32x16 Set1(float x) {
  return {_mm512_set1_ps(x)};
}
K3_SIMD F32x16 Zero() {
  return {_mm512_setzero_ps()};
}
K3_SIMD F32x16 Add(F32x16 a, F32x16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
K3_SIMD F32x16 Sub(F32x16 a, F32x16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
K3_SIMD F32x16 Mul(F32x16 a, F32x16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
K3_SIMD F32x16 Div(F32x16 a, F32x16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
K3_SIMD F32x16 Sqrt(F32x16 a) {
  return {_mm512_sqrt_ps(a.v)};
}
K3_SIMD F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
// a > b ? a : b, the second operand where unordered: the same on every instruction set.
K3_SIMD F32x16 Max(F32x16 a, F32x16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
K3_SIMD F32x16 Min(F32x16 a, F32x16 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
K3_SIMD F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 yes, F32x16 no) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
K3_SIMD F32x16 RoundToWhole(F32x16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// 2^n for whole n in [-126, 127].
K3_SIMD F32x16 PowerOfTwo(F32x16 n) {
  const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
}
K3_SIMD F32x16 LoadBf16(const Bf16* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
// Whole numbers to float, exact below 2^24.
K3_SIMD F32x16 FromInt(const std::int32_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_loadu_si512(p))};
}

// Lanes by halves: i + (i + 8), then 4, 2, 1.
K3_SIMD float ReduceAdd(F32x16 a) {
  const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1));
  const __m256 by8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), high);
  const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}

// One native register: what a GEMM keeps its sums in.
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
  const __m512i groups =
      _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
  const __m512 a = _mm512_loadu_ps(p), b = _mm512_loadu_ps(p + 16);
  const __m512 c = _mm512_loadu_ps(p + 32), d = _mm512_loadu_ps(p + 48);
  for (int j = 0; j < 4; ++j) {
    const __m512i pick = _mm512_add_epi32(groups, _mm512_set1_epi32(j));
    out[j] = {_mm512_mask_blend_ps(0xff00, _mm512_permutex2var_ps(a, pick, b),
                                   _mm512_permutex2var_ps(c, pick, d))};
  }
}

#undef K3_SIMD

}  // namespace k3::kernels::K3_ISA
