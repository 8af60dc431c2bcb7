// bfloat16 as stored: the upper half of a float. Widening is exact; narrowing rounds to nearest
// even. constexpr, so that device code may call them too.
#pragma once
#include <bit>
#include <cstdint>

namespace k3 {

struct Bf16 {
  std::uint16_t bits;
};
static_assert(sizeof(Bf16) == 2);

[[gnu::always_inline]] constexpr float ToFloat(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// A NaN stays a NaN (its payload may be cut): rounding up must not turn it into infinity.
[[gnu::always_inline]] constexpr Bf16 ToBf16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  if ((u & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((u >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16)};
}

}  // namespace k3
