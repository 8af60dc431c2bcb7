// Router of the latent MoE (architecture notes 2.5), "noaux_tc" with one group:
//   s = sigmoid(logits);  chosen = top-k of s + bias, ties to the lowest id
//   weight_i = s_i / (sum over chosen of s + 1e-20) * scaling     (the bias never enters a weight)
// Slots leave sorted by expert id: the order experts are summed in; the renormalising sum runs in
// that order too.
#pragma once
#include "kernels/base/tensor.h"

namespace k3::kernels {

struct RouteArgs {
  ConstTensor logits;       // F32 [T, E]
  ConstTensor bias;         // F32 [1, E]
  bool renormalize = true;  // moe_renormalize
  float scaling = 1;        // routed_scaling_factor
  Tensor ids;               // I32 [T, K]
  Tensor weights;           // F32 [T, K]
  Tensor load;              // I32 [1, E] rows per expert are added to it; empty: not wanted
};

}  // namespace k3::kernels
