// Products of MXFP4 rows with an input cut into groups of 32 int16 values q and a scale each:
//   acc = fma(float(sum of 2 E2M1 * q), 2^(s - 127) * (scale / 2), acc)   groups ascending.
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
  float* half_scale;  // [K / 32]
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

// The scale of 32 values: amax / 32512; 0 for a group of zeros (or of values so small that half
// the scale would be subnormal); NaN when a value is not finite, so that the whole row becomes NaN.
K3_INLINE float GroupScale(const float* x) {
  std::uint32_t largest = 0;
  for (int i = 0; i < kMxfp4Group; ++i) {
    const std::uint32_t magnitude = __builtin_bit_cast(std::uint32_t, x[i]) & 0x7fffffffU;
    largest = magnitude > largest ? magnitude : largest;
  }
  if (largest >= 0x7f800000U) return __builtin_nanf("");
  const float scale = __builtin_bit_cast(float, largest) / kQuantMax;
  return scale < 0x1p-125F ? 0.0F : scale;
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
  out.half_scale[g] = 0.5F * scale;
}

K3_INLINE void QuantiseRow(const float* x, std::int64_t k, const QuantRow& out) {
  for (std::int64_t g = 0; g < k / kMxfp4Group; ++g) QuantiseGroup(x + g * kMxfp4Group, out, g);
}

// Sixteen rows of a weight.
struct Block {
  const Mxfp4Weight* weight;
  std::int64_t row;
};

// Asks for the scales of a block that will be read soon.
K3_INLINE void PrefetchScales(const Block& block) {
  const std::uint8_t* scale = block.weight->scale.Row<std::uint8_t>(block.row);
  for (std::int64_t at = 0; at < kDotRows * block.weight->scale.stride; at += 64)
    __builtin_prefetch(scale + at, 0, 2);
}

// Scales of sixteen rows from group `first` on, one by one.
K3_INLINE void ScalesPlain(const Block& block, std::int64_t first, float* out) {
  for (int r = 0; r < kDotRows; ++r) {
    const std::uint8_t* scale = block.weight->scale.Row<std::uint8_t>(block.row + r);
    for (std::int64_t g = first; g < block.weight->scale.cols; ++g)
      out[g * kDotRows + r] = E8m0ToFloat(scale[g]);
  }
}

#if defined(__AVX2__)

// Sixteen rows of sixteen bytes, columns and rows exchanged: four rounds of interleaving.
K3_INLINE void TransposeBytes(__m128i (&v)[16]) {
  for (int round = 0; round < 4; ++round) {
    __m128i mixed[16];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
      mixed[2 * i] = _mm_unpacklo_epi8(v[i], v[i + 8]);
      mixed[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) v[i] = mixed[i];
  }
}

// 2^(s - 127) of eight rows: the bits are s << 23, but for the subnormal 2^-127.
K3_INLINE __m256 Scales8(__m128i bytes) {
  const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu8_epi32(bytes), 23);
  return _mm256_castsi256_ps(_mm256_max_epu32(bits, _mm256_set1_epi32(0x00400000)));
}

// [K / 32][16]: once per sixteen outputs, for all their inputs.
K3_INLINE void LoadScales(const Block& block, float* out) {
  std::int64_t g = 0;
  for (; g + 16 <= block.weight->scale.cols; g += 16) {
    __m128i bytes[16];
#pragma GCC unroll 16
    for (int r = 0; r < kDotRows; ++r) {
      const std::uint8_t* scale = block.weight->scale.Row<std::uint8_t>(block.row + r) + g;
      bytes[r] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(scale));
    }
    TransposeBytes(bytes);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      float* to = out + (g + i) * kDotRows;
      _mm256_storeu_ps(to, Scales8(bytes[i]));
      _mm256_storeu_ps(to + 8, Scales8(_mm_srli_si128(bytes[i], 8)));
    }
  }
  ScalesPlain(block, g, out);
}

// Packed bytes of eight rows and one group, four bytes of a row to a 32-bit lane, lane r = row r:
// out[j] holds the columns 8j .. 8j + 7.
struct EightRows {
  __m256i bytes[4];
};

K3_INLINE __m256i TwoRows(const std::uint8_t* first, const std::uint8_t* second) {
  const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first));
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(second));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

K3_INLINE EightRows LoadEightRows(const std::uint8_t* packed, std::int64_t stride) {
  const __m256i a = TwoRows(packed, packed + 4 * stride);
  const __m256i b = TwoRows(packed + stride, packed + 5 * stride);
  const __m256i c = TwoRows(packed + 2 * stride, packed + 6 * stride);
  const __m256i d = TwoRows(packed + 3 * stride, packed + 7 * stride);
  const __m256i low01 = _mm256_unpacklo_epi32(a, b);
  const __m256i low23 = _mm256_unpacklo_epi32(c, d);
  const __m256i high01 = _mm256_unpackhi_epi32(a, b);
  const __m256i high23 = _mm256_unpackhi_epi32(c, d);
  return {{_mm256_unpacklo_epi64(low01, low23), _mm256_unpackhi_epi64(low01, low23),
           _mm256_unpacklo_epi64(high01, high23), _mm256_unpackhi_epi64(high01, high23)}};
}

// Weights of the low nibbles, biased: the even columns. After a shift by 4: the odd ones.
K3_INLINE __m256i BiasedWeights(__m256i bytes) {
  const __m256i table = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  return _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, _mm256_set1_epi8(15)));
}

// Four columns of every row against the same four digits.
K3_INLINE __m256i Products(__m256i weights, const std::int8_t* digits) {
  std::int32_t four;
  __builtin_memcpy(&four, digits, sizeof four);
  return _mm256_maddubs_epi16(weights, _mm256_set1_epi32(four));
}

// Sums of both digits over the even and over the odd columns, sixteen each: at most four times
// 6144, so 16 bits hold them.
struct DigitSums {
  __m256i high_even, high_odd, low_even, low_odd;
};

K3_INLINE void AddProducts(__m256i even, __m256i odd, const std::int8_t* high,
                           const std::int8_t* low, DigitSums& s) {
  s.high_even = _mm256_add_epi16(s.high_even, Products(even, high));
  s.low_even = _mm256_add_epi16(s.low_even, Products(even, low));
  s.high_odd = _mm256_add_epi16(s.high_odd, Products(odd, high + kPairs));
  s.low_odd = _mm256_add_epi16(s.low_odd, Products(odd, low + kPairs));
  // Four chains as written: a tree of sums would need more registers than there are.
  asm("" : "+x"(s.high_even), "+x"(s.low_even), "+x"(s.high_odd), "+x"(s.low_odd));
}

K3_INLINE __m256i Total(const DigitSums& s) {
  const __m256i upper = _mm256_set1_epi16(256);
  const __m256i lower = _mm256_set1_epi16(1);
  const __m256i high =
      _mm256_add_epi32(_mm256_madd_epi16(s.high_even, upper), _mm256_madd_epi16(s.high_odd, upper));
  const __m256i low =
      _mm256_add_epi32(_mm256_madd_epi16(s.low_even, lower), _mm256_madd_epi16(s.low_odd, lower));
  return _mm256_add_epi32(high, low);
}

// sums[p][r] of sixteen rows and group g against P inputs.
template <int P>
K3_INLINE void GroupSums(const std::uint8_t* packed, std::int64_t stride, const QuantRow* q,
                         std::int64_t g, std::int32_t (&sums)[P][kDotRows]) {
  const std::int64_t at = g * kMxfp4Group;
#pragma GCC unroll 1
  for (int first = 0; first < kDotRows; first += 8) {
    // Digits are read again for the second half, not kept (and spilled) from the first.
    __atomic_signal_fence(__ATOMIC_ACQ_REL);
    const EightRows rows = LoadEightRows(packed + first * stride, stride);
    DigitSums digits[P] = {};
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < 4; ++j) {
      const __m256i even = BiasedWeights(rows.bytes[j]);
      const __m256i odd = BiasedWeights(_mm256_srli_epi16(rows.bytes[j], 4));
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p)
        AddProducts(even, odd, q[p].high + at + 4 * j, q[p].low + at + 4 * j, digits[p]);
    }
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      const __m256i bias = _mm256_set1_epi32(q[p].sum[g]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums[p] + first),
                          _mm256_sub_epi32(Total(digits[p]), bias));
    }
  }
}

#else

K3_INLINE void LoadScales(const Block& block, float* out) {
  ScalesPlain(block, 0, out);
}

template <int P>
K3_INLINE void GroupSums(const std::uint8_t* packed, std::int64_t stride, const QuantRow* q,
                         std::int64_t g, std::int32_t (&sums)[P][kDotRows]) {
  for (int p = 0; p < P; ++p) {
    std::int32_t in[kMxfp4Group];
    for (int i = 0; i < kMxfp4Group; ++i)
      in[i] = 256 * q[p].high[g * kMxfp4Group + i] + q[p].low[g * kMxfp4Group + i];
    for (int r = 0; r < kDotRows; ++r) {
      std::int32_t sum = 0;
      for (int j = 0; j < kPairs; ++j) {
        const int byte = packed[r * stride + j];
        sum += kTwiceE2m1[byte & 15] * in[j] + kTwiceE2m1[byte >> 4] * in[kPairs + j];
      }
      sums[p][r] = sum;
    }
  }
}

#endif

inline constexpr int kMaxInputs = 2;  // that share one decoding of the weights

struct DotArgs {
  Block block;
  const float* scales;  // of the block, from LoadScales
  const QuantRow* q;
  // Packed bytes of the block that is read after this one, fetched meanwhile; or null.
  const std::uint8_t* next;
  float (*out)[kDotRows];  // one row per input
};

template <int P>
[[gnu::noinline]] static void SixteenDots(const DotArgs& args) {
  const Mxfp4Weight& weight = *args.block.weight;
  const std::uint8_t* packed = weight.packed.Row<std::uint8_t>(args.block.row);
  const std::uint8_t* next = args.next;
  F32x16 acc[P];
  for (int p = 0; p < P; ++p) acc[p] = Zero();
  for (std::int64_t g = 0; g < weight.scale.cols; ++g) {
    if (next != nullptr) {
      for (std::int64_t line = 0; line < 4; ++line)
        __builtin_prefetch(next + (g * 4 + line) * 64, 0, 2);
    }
    std::int32_t sums[P][kDotRows];
    GroupSums(packed + g * kPairs, weight.packed.stride, args.q, g, sums);
    const F32x16 scale = Load(args.scales + g * kDotRows);
#pragma GCC unroll 2
    for (int p = 0; p < P; ++p)
      acc[p] = Fma(FromInt(sums[p]), Mul(scale, Set1(args.q[p].half_scale[g])), acc[p]);
  }
  for (int p = 0; p < P; ++p) Store(args.out[p], acc[p]);
}

// The dots of 1..kMaxInputs inputs with the sixteen rows of a block.
K3_INLINE void BlockDots(int inputs, const DotArgs& args) {
  if (inputs == 1) SixteenDots<1>(args);
  if (inputs == 2) SixteenDots<2>(args);
}

}  // namespace k3::kernels::K3_ISA
