// What a page holds (design section 4). One pool of equal pages serves both currencies:
//   latents  one 16-token block for all MLA layers: [layer][16][latent width], a layer's rows
//            contiguous, in the latent storage type;
//   state    `units_per_page` KDA units, heads contiguous, rounded up per layer.
// A unit is one head of one KDA layer: S [key][value] fp32, then its conv tail [3][q,k,v][dim]
// fp32, oldest first; both as they stand at the same grid point.
#pragma once
#include <cstdint>

#include "kernels/base/tensor.h"

namespace k3::kernels {

// KDA chunk = latent block = snapshot position: the one grid of the house.
inline constexpr int kGridTokens = 16;
inline constexpr int kConvTaps = 4;
inline constexpr int kTailRows = kConvTaps - 1;

struct PageGeometry {
  int mla_layers;
  int latent_width;    // kv_lora_rank + qk_rope_head_dim
  DType latent_dtype;  // kBf16, or kF32
  int kda_layers;
  int kda_heads;
  int kda_head_dim;
};

struct PageLayout {
  PageGeometry geometry;
  std::int64_t block_bytes;  // latents of one block, all MLA layers
  std::int64_t unit_bytes;
  std::int64_t page_bytes;  // max(block, unit) rounded up to 256
  int units_per_page;
  int pages_per_kda_layer;
  int state_pages;  // of one sequence or snapshot, all KDA layers

  // Byte offset inside a block page of row `row` of MLA layer `layer`.
  [[gnu::always_inline]] std::int64_t LatentOffset(int layer, int row) const {
    return (std::int64_t{layer} * kGridTokens + row) * geometry.latent_width *
           SizeOf(geometry.latent_dtype);
  }
  // Which of a state's pages holds the unit, and where in it.
  [[gnu::always_inline]] int UnitPage(int layer, int head) const {
    return layer * pages_per_kda_layer + head / units_per_page;
  }
  [[gnu::always_inline]] std::int64_t UnitOffset(int head) const {
    return (head % units_per_page) * unit_bytes;
  }
};

PageLayout MakePageLayout(const PageGeometry& geometry);

}  // namespace k3::kernels
