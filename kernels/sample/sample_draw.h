// What every host backend's sampler shares: the random numbers, the edits, and the choice from
// weights. Pure whole-number arithmetic once the weights are there, so the order of sums changes
// nothing.
#pragma once
#include <array>
#include <cstdint>

#include "kernels/sample/sample.h"

namespace k3::kernels {

// Philox-4x32-10 (Salmon et al., 2011): the generator is the function itself, there is no state.
std::array<std::uint32_t, 4> Philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

// 64 random bits of (seed, choice, position).
std::uint64_t RandomBits(const SampleRow& row);

[[gnu::always_inline]] inline bool IsAllowed(const SampleRow& row, std::int32_t id) {
  return row.mask == nullptr || ((row.mask[id / 32] >> (id % 32)) & 1U) != 0;
}

// The logits with the row's edits, and minus infinity for those banned: in `copy` [count], or where
// they are if nothing changes. Ids >= count exist for nobody and are passed over.
const float* Edited(const SampleRow& row, const float* logits, std::int32_t count, float* copy);

// The largest allowed logit, ties to the lowest id; id -1 when the row is damaged or allows nothing
// (minus infinity counts as not allowed).
struct Largest {
  std::int32_t id;
  float logit;
};
Largest FindLargest(const SampleRow& row, const float* logits, std::int32_t count);

// Probability mass in units of 2^-40 of the most likely token's: exact sums up to 2^23 tokens.
inline constexpr float kMassOne = 0x1p40F;

// The token of a keyed draw from what min_p, top_k and top_p leave. weights[i] in [0, 1] is
// proportional to p_i; the largest is 1; those not allowed count as 0 and may hold anything. Works
// in place: what is left of the weights means nothing.
std::int32_t DrawToken(const SampleRow& row, float* weights, std::int32_t count);

}  // namespace k3::kernels
