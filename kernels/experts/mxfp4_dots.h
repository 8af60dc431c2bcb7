// Products of MXFP4 rows with an input cut into groups of 32 int16 values q and a scale each:
//   acc = fma(float(sum of 2 E2M1 * q), (0.5 * 2^(s - 127)) * scale, acc)   groups ascending.
// Sums inside a group are whole numbers, so the order and the instructions inside do not matter.
// Sixteen outputs are computed at a time, group by group: kLanes chains side by side.
//
// AVX2: q = 256 high + low in signed bytes, weights biased to 2 E2M1 + 12 = 0..24, so that one
// pmaddubsw takes 32 products of a digit (|sum of two| <= 6144: no saturation); the bias is taken
// off again as 12 * sum(q).
#pragma once
#include "kernels/base/mxfp4.h"
#include "kernels/simd/simd.h"

namespace k3::kernels::K3_ISA {

inline constexpr int kDotRows = kLanes;       // outputs at a time
inline constexpr float kQuantMax = 32512.0F;  // 127 * 256: the high digit fits a signed byte
inline constexpr int kPairs = kMxfp4Group / 2;

// One row of inputs, quantised. Values are stored as the weights' nibbles lie: the sixteen even
// columns of a group, then the sixteen odd ones.
struct QuantRow {
  std::int8_t* high;  // [K], q = 256 * high + low
  std::int8_t* low;   // [K]
  std::int32_t* sum;  // [K / 32], 12 * sum of q
  float* scale;       // [K / 32]
};

K3_INLINE std::int64_t QuantBytes(std::int64_t k) {
  return 2 * k + k / kMxfp4Group * 8;
}

// Row `row` of quantised rows that lie QuantBytes apart.
K3_INLINE QuantRow CutQuantRow(std::byte* memory, std::int64_t row, std::int64_t k) {
  std::byte* at = memory + row * QuantBytes(k);
  auto* high = reinterpret_cast<std::int8_t*>(at);
  auto* sum = reinterpret_cast<std::int32_t*>(at + 2 * k);
  return {high, high + k, sum, reinterpret_cast<float*>(sum + k / kMxfp4Group)};
}

// The scale of 32 values: amax / 32512; 0 for a group of zeros (or of values so small that the
// scale would be subnormal); NaN when a value is not finite, so that the whole row becomes NaN.
K3_INLINE float GroupScale(const float* x) {
  std::uint32_t largest = 0;
  for (int i = 0; i < kMxfp4Group; ++i) {
    const std::uint32_t magnitude = __builtin_bit_cast(std::uint32_t, x[i]) & 0x7fffffffU;
    largest = magnitude > largest ? magnitude : largest;
  }
  if (largest >= 0x7f800000U) return __builtin_nanf("");
  const float scale = __builtin_bit_cast(float, largest) / kQuantMax;
  return scale < 0x1p-126F ? 0.0F : scale;
}

K3_INLINE void QuantiseGroup(const float* x, const QuantRow& out, std::int64_t g) {
  const float scale = GroupScale(x);
  float whole[kMxfp4Group] = {};
  if (scale > 0) {  // not so for 0 and for NaN
    for (int i = 0; i < kMxfp4Group; i += kLanes)
      Store(whole + i, RoundToWhole(Div(Load(x + i), Set1(scale))));
  }
  std::int8_t* high = out.high + g * kMxfp4Group;
  std::int8_t* low = out.low + g * kMxfp4Group;
  std::int32_t sum = 0;
  for (int i = 0; i < kMxfp4Group; ++i) {
    const int at = i / 2 + i % 2 * kPairs;
    const auto q = static_cast<std::int32_t>(whole[i]);
    const std::int32_t digit = (q + 128) >> 8;
    high[at] = static_cast<std::int8_t>(digit);
    low[at] = static_cast<std::int8_t>(q - 256 * digit);
    sum += q;
  }
  out.sum[g] = 12 * sum;
  out.scale[g] = scale;
}

K3_INLINE void QuantiseRow(const float* x, std::int64_t k, const QuantRow& out) {
  for (std::int64_t g = 0; g < k / kMxfp4Group; ++g) QuantiseGroup(x + g * kMxfp4Group, out, g);
}

// 0.5 * 2^(s - 127) of sixteen rows, [K / 32][16]: once per sixteen outputs, for all their inputs.
K3_INLINE void HalfScales(const Mxfp4Weight& weight, std::int64_t row, float* out) {
  for (int r = 0; r < kDotRows; ++r) {
    const std::uint8_t* scale = weight.scale.Row<std::uint8_t>(row + r);
    for (std::int64_t g = 0; g < weight.scale.cols; ++g) {
      // E8m0ToFloat(s) / 2: exact below the normal range, too.
      const std::uint32_t s = scale[g];
      const std::uint32_t bits = s > 1 ? (s - 1) << 23 : 0x00200000U << s;
      out[g * kDotRows + r] = __builtin_bit_cast(float, bits);
    }
  }
}

#if defined(__AVX2__)

// 32 biased weights: even columns in the low half, odd ones in the high half.
K3_INLINE __m256i BiasedWeights(const std::uint8_t* packed) {
  const __m256i table = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  const __m256i both =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(packed)));
  const __m256i nibbles = _mm256_and_si256(
      _mm256_srlv_epi32(both, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4)), _mm256_set1_epi8(15));
  return _mm256_shuffle_epi8(table, nibbles);
}

// Eight partial sums of one row and group.
K3_INLINE __m256i RowSums(const std::uint8_t* packed, __m256i high, __m256i low) {
  const __m256i w = BiasedWeights(packed);
  const __m256i h = _mm256_madd_epi16(_mm256_maddubs_epi16(w, high), _mm256_set1_epi16(256));
  const __m256i l = _mm256_madd_epi16(_mm256_maddubs_epi16(w, low), _mm256_set1_epi16(1));
  return _mm256_add_epi32(h, l);
}

// Sums of eight rows, one a lane. Rows are taken in pairs so that few sums wait in registers.
K3_INLINE __m256i EightRows(const std::uint8_t* packed, std::int64_t stride, __m256i high,
                            __m256i low) {
  const auto row = [&](int r) { return RowSums(packed + r * stride, high, low); };
  const __m256i quad0 =
      _mm256_hadd_epi32(_mm256_hadd_epi32(row(0), row(1)), _mm256_hadd_epi32(row(2), row(3)));
  const __m256i quad1 =
      _mm256_hadd_epi32(_mm256_hadd_epi32(row(4), row(5)), _mm256_hadd_epi32(row(6), row(7)));
  return _mm256_add_epi32(_mm256_permute2x128_si256(quad0, quad1, 0x20),
                          _mm256_permute2x128_si256(quad0, quad1, 0x31));
}

K3_INLINE void GroupSums(const std::uint8_t* packed, std::int64_t stride, const QuantRow& q,
                         std::int64_t g, std::int32_t* out) {
  const auto* high = reinterpret_cast<const __m256i*>(q.high + g * kMxfp4Group);
  const auto* low = reinterpret_cast<const __m256i*>(q.low + g * kMxfp4Group);
  const __m256i h = _mm256_loadu_si256(high);
  const __m256i l = _mm256_loadu_si256(low);
  const __m256i bias = _mm256_set1_epi32(q.sum[g]);
  const __m256i a = EightRows(packed, stride, h, l);
  const __m256i b = EightRows(packed + 8 * stride, stride, h, l);
  auto* to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, _mm256_sub_epi32(a, bias));
  _mm256_storeu_si256(to + 1, _mm256_sub_epi32(b, bias));
}

#else

K3_INLINE void GroupSums(const std::uint8_t* packed, std::int64_t stride, const QuantRow& q,
                         std::int64_t g, std::int32_t* out) {
  std::int32_t in[kMxfp4Group];
  for (int i = 0; i < kMxfp4Group; ++i)
    in[i] = 256 * q.high[g * kMxfp4Group + i] + q.low[g * kMxfp4Group + i];
  for (int r = 0; r < kDotRows; ++r) {
    std::int32_t sum = 0;
    for (int j = 0; j < kPairs; ++j) {
      const int byte = packed[r * stride + j];
      sum += kTwiceE2m1[byte & 15] * in[j] + kTwiceE2m1[byte >> 4] * in[kPairs + j];
    }
    out[r] = sum;
  }
}

#endif

// Sixteen outputs from row `row` on. `scales` comes from HalfScales.
K3_INLINE F32x16 SixteenDots(const Mxfp4Weight& weight, std::int64_t row, const float* scales,
                             const QuantRow& q) {
  const std::uint8_t* packed = weight.packed.Row<std::uint8_t>(row);
  F32x16 acc = Zero();
  for (std::int64_t g = 0; g < weight.scale.cols; ++g) {
    std::int32_t sums[kDotRows];
    GroupSums(packed + g * kPairs, weight.packed.stride, q, g, sums);
    const F32x16 factor = Mul(Load(scales + g * kDotRows), Set1(q.scale[g]));
    acc = Fma(FromInt(sums), factor, acc);
  }
  return acc;
}

}  // namespace k3::kernels::K3_ISA
