#include "kernels/ref_ops.h"

namespace k3::kernels::ref {

void Embed(const EmbedArgs& args) {
  for (std::int64_t t = 0; t < args.out.rows; ++t) {
    const std::int32_t id = args.ids[t];
    K3_CHECK(id >= 0);
    K3_CHECK(id < args.table.rows);
    const Bf16* row = args.table.Row<Bf16>(id);
    float* out = args.out.Row<float>(t);
    for (std::int64_t c = 0; c < args.out.cols; ++c) out[c] = ToFloat(row[c]);
  }
}

}  // namespace k3::kernels::ref
