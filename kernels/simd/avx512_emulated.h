// The AVX-512 intrinsics of simd_avx512.h on SIMDe. Debian's version lacks five of them; these are
// the same functions on AVX2.
#pragma once
#include <cstdint>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

namespace k3::kernels::K3_ISA {

#define K3_SIMD [[gnu::always_inline]] inline

K3_SIMD __m512 EmulatedLoadFirst(__mmask16 mask, const float* p) {
  float lane[16];
  for (int i = 0; i < 16; ++i) lane[i] = ((mask >> i) & 1) != 0 ? p[i] : 0.0F;
  return _mm512_loadu_ps(lane);
}
K3_SIMD void EmulatedStoreFirst(float* p, __mmask16 mask, __m512 x) {
  float lane[16];
  _mm512_storeu_ps(lane, x);
  for (int i = 0; i < 16; ++i)
    if (((mask >> i) & 1) != 0) p[i] = lane[i];
}
K3_SIMD __m512i EmulatedToInt(__m512 x) {
  float lane[16];
  std::int32_t whole[16];
  _mm512_storeu_ps(lane, x);
  for (int i = 0; i < 16; i += 8) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(whole + i),
                        _mm256_cvtps_epi32(_mm256_loadu_ps(lane + i)));
  }
  return _mm512_loadu_si512(whole);
}
K3_SIMD __m512 EmulatedFromInt(__m512i x) {
  float lane[16];
  std::int32_t whole[16];
  _mm512_storeu_si512(whole, x);
  for (int i = 0; i < 16; i += 8) {
    _mm256_storeu_ps(
        lane + i,
        _mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(whole + i))));
  }
  return _mm512_loadu_ps(lane);
}
K3_SIMD __m512i EmulatedWiden(__m256i x) {
  std::uint16_t half[16];
  std::int32_t whole[16];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(half), x);
  for (int i = 0; i < 16; ++i) whole[i] = half[i];
  return _mm512_loadu_si512(whole);
}

#undef K3_SIMD

}  // namespace k3::kernels::K3_ISA

// NOLINTBEGIN(bugprone-reserved-identifier): these stand in for the names themselves.
#define _mm512_maskz_loadu_ps EmulatedLoadFirst
#define _mm512_mask_storeu_ps EmulatedStoreFirst
#define _mm512_cvtps_epi32 EmulatedToInt
#define _mm512_cvtepi32_ps EmulatedFromInt
#define _mm512_cvtepu16_epi32 EmulatedWiden
// NOLINTEND(bugprone-reserved-identifier)
