// Gated NoPE multi-head latent attention, absorbed in every path (architecture notes 2.4):
//   row   = [RMSNorm(kv_a[:kv]; kv_norm) | kv_a[kv:]]   stored in its block's page, rounded to the
//           latent type before its first use; every row of the step is stored before any is read
//   q_lat = q_nope W_UK,h;  score(s) = (q_lat . row_s[:kv] + q_x . row_s[kv:]) * (nope + rope)^-0.5
//   o_lat = sum_s softmax(score) row_s[:kv] over s = 0..position;  o = W_UV,h o_lat
//   out   = o * sigmoid(gate)
// kv_b holds per head `nope` rows of W_UK, then `v` rows of W_UV. Rows of a page beyond the
// context's length are never used, whatever their bytes (0 * NaN is NaN). The context is cut into
// splits of a fixed LENGTH, whatever the batch; splits are combined in order. Cost: per cached row
// and query row H * 2 * (2 kv + rope) flops.
#pragma once
#include "kernels/base/tensor.h"
#include "kernels/batch_view.h"
#include "kernels/page_layout.h"

namespace k3::kernels {

struct MlaAttendArgs {
  const BatchView* batch = nullptr;
  const PageLayout* layout = nullptr;
  std::byte* pages = nullptr;
  int layer = 0;  // index among the MLA layers

  int heads = 0;
  int nope_dim = 0;
  int rope_dim = 0;  // never rotated
  int v_dim = 0;
  int kv_rank = 0;
  ConstTensor q;        // [T, H*(nope+rope)]
  ConstTensor kv_a;     // [T, kv+rope] raw
  ConstTensor kv_norm;  // BF16 [1, kv]
  float kv_norm_eps = 0;
  ConstTensor kv_b;  // BF16 [H*(nope+v), kv]
  ConstTensor gate;  // [T, H*v] logits
  Tensor out;        // [T, H*v]
};

}  // namespace k3::kernels
