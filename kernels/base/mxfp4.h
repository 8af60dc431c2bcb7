// MXFP4 as stored (compressed-tensors "mxfp4-pack-quantized", architecture notes 3.3): 4-bit E2M1
// values, two to a byte, low nibble first, and one E8M0 scale byte per 32 inputs of a row.
#pragma once
#include <bit>
#include <cstdint>

#include "kernels/base/tensor.h"

namespace k3 {

inline constexpr int kMxfp4Group = 32;

// One weight matrix [out, in]: packed U8 [out, in/2], scale U8 [out, in/32]; w = E2M1 * 2^(s-127).
struct Mxfp4Weight {
  ConstTensor packed;
  ConstTensor scale;
};

// Twice the E2M1 value, so that all sixteen are whole numbers: bit 3 is the sign.
inline constexpr std::int8_t kTwiceE2m1[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                               0, -1, -2, -3, -4, -6, -8, -12};

// 2^(scale-127), exact; scale 0 is the subnormal 2^-127; 255 (NaN) is refused when a file is
// opened.
[[gnu::always_inline]] inline float E8m0ToFloat(std::uint8_t scale) {
  return scale == 0 ? 0x1p-127F : std::bit_cast<float>(static_cast<std::uint32_t>(scale) << 23);
}

}  // namespace k3
