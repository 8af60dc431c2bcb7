#include "kernels/page_layout.h"

#include <algorithm>

namespace k3::kernels {

PageLayout MakePageLayout(const PageGeometry& geometry) {
  constexpr std::int64_t kAlign = 256;
  const std::int64_t dim = geometry.kda_head_dim;
  PageLayout layout{};
  layout.geometry = geometry;
  layout.block_bytes = std::int64_t{geometry.mla_layers} * kGridTokens * geometry.latent_width *
                       SizeOf(geometry.latent_dtype);
  layout.unit_bytes = (dim * dim + kTailRows * 3 * dim) * SizeOf(DType::kF32);
  const std::int64_t largest = std::max(layout.block_bytes, layout.unit_bytes);
  layout.page_bytes = (largest + kAlign - 1) / kAlign * kAlign;
  layout.units_per_page = static_cast<int>(layout.page_bytes / layout.unit_bytes);
  layout.pages_per_kda_layer =
      (geometry.kda_heads + layout.units_per_page - 1) / layout.units_per_page;
  layout.state_pages = geometry.kda_layers * layout.pages_per_kda_layer;
  return layout;
}

}  // namespace k3::kernels
