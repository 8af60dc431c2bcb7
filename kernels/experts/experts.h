// Routed experts in the latent space, MXFP4 weights (architecture notes 2.5, 3.3):
//   out[t] = sum over slots j of weights[t][j] * W2 situ(W1 x, W3 x)   of expert ids[t][j]
// in slot order, fp32. Products on CPU (design section 6): an input is cut into groups of 32, each
// rounded to int16 with scale amax / 32512; a group's sum is exact in int32; one fp32 fma chain
// over groups in ascending order. So neither layout nor ISA nor T changes a bit.
#pragma once
#include "kernels/base/mxfp4.h"
#include "kernels/base/tensor.h"

namespace k3::kernels {

struct ExpertWeights {
  Mxfp4Weight w1, w3;  // gate, up [expert width, latent]
  Mxfp4Weight w2;      // down [latent, expert width]
};

struct ExpertsArgs {
  ConstTensor x;                           // [T, latent], activation type
  ConstTensor ids;                         // I32 [T, K], ascending in a row
  ConstTensor weights;                     // F32 [T, K]
  const ExpertWeights* experts = nullptr;  // [E]
  int num_experts = 0;
  float situ_beta = 0;
  float situ_linear_beta = 0;
  Tensor out;  // [T, latent]
};

}  // namespace k3::kernels
