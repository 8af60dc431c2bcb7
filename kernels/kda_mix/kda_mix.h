// Kimi Delta Attention from the raw projections to the gated, normed output of every head
// (architecture notes 2.3), on the 16-row grid in every path (kernels notes 2.2-2.5):
//   u^ = SiLU(causal depthwise conv of width 4 over raw q, k, v)
//   q = q^ / sqrt(sum q^2 + 1e-6) * D^-0.5       k = k^ / sqrt(sum k^2 + 1e-6)
//   g = lower_bound * sigmoid(exp(A_log[h]) * (z + dt_bias))     beta = sigmoid(b)
//   S' = diag(exp g) S;  u = beta (v - S'^T k);  S = S' + k u^T;  o = S^T q
//   out = RMSNorm(o; o_norm, eps) * sigmoid(gate)
// Laws:
//   1. S and the conv tail are read at the last grid point (batch.state_source), folded once per 16
//      rows into batch.state_target, exported where the batch asks; never written per token.
//   2. Rows since the grid (position % 16 of them) live in the context's window, written here and
//      read here only; a window needs no clearing, since a run at a grid point reads none of it.
//   3. A row's bits depend on its context alone: not on T, the cut into runs, threads or ISA.
#pragma once
#include "kernels/base/tensor.h"
#include "kernels/batch_view.h"
#include "kernels/page_layout.h"

namespace k3::kernels {

struct KdaMixArgs {
  const BatchView* batch = nullptr;
  const PageLayout* layout = nullptr;
  std::byte* pages = nullptr;   // the pool, page p at p * page_bytes
  std::byte* window = nullptr;  // slot s of this layer at s * window_slot_bytes
  std::int64_t window_slot_bytes = 0;
  int layer = 0;  // index among the KDA layers

  ConstTensor q, k, v;                 // [T, H*D] raw projections, before conv
  ConstTensor z;                       // [T, H*D] decay logits
  ConstTensor beta;                    // [T, H] logits
  ConstTensor gate;                    // [T, H*D] output gate logits
  ConstTensor q_conv, k_conv, v_conv;  // F32 [H*D, 4]; tap 3 is the current row
  ConstTensor a_log;                   // F32 [1, H]
  ConstTensor dt_bias;                 // F32 [1, H*D]
  ConstTensor o_norm;                  // F32 [1, D]
  float lower_bound = 0;               // gate_lower_bound, -5
  float eps = 0;                       // of o_norm
  Tensor out;                          // [T, H*D]
};

}  // namespace k3::kernels
