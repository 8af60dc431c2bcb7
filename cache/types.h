// The words of the cache room: ids and positions, never addresses.
#pragma once
#include <cstdint>

namespace k3::cache {

using Token = std::int32_t;

// A page of the pool. What it holds (latents of a block, KDA units) is its owner's business.
enum class PageId : std::int32_t {};

// The one grid: KDA chunk = latent block = snapshot position. kernels/page_layout.h repeats the
// number for the other room; a static_assert in runtime/memory holds them together.
inline constexpr int kBlockTokens = 16;

constexpr int BlocksFor(std::int64_t tokens) {
  return static_cast<int>((tokens + kBlockTokens - 1) / kBlockTokens);
}

}  // namespace k3::cache
