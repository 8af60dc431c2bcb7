// Linear maps of one input by many weights, so that merged projections need no copy of weights:
//   plain segment   out (+)= n(x) W^T                 W BF16 [N, K] as stored
//   gated segment   out   = situ(n(x) W^T, n(x) U^T)  with U = up_weight
//   situ(g, u) = beta tanh(g / beta) sigmoid(g) * linear_beta tanh(u / linear_beta)
//   n(x) = x, or RMSNorm(x; norm_weight, norm_eps) when a norm weight is given.
// One order of sums for every T (design section 6): k goes to lane k mod 16 of accumulator
// (k / 16) mod 4; ((a0 + a1) + (a2 + a3)), then lanes by halves (8, 4, 2, 1).
// Cost: N*K*2 bytes of weights, 2*T*N*K flops per segment.
#pragma once
#include "kernels/base/tensor.h"

namespace k3::kernels {

struct LinearSegment {
  ConstTensor weight;       // BF16 [N, K]
  ConstTensor up_weight;    // BF16 [N, K]: makes the segment gated; empty otherwise
  Tensor out;               // [T, N]: activation type, or F32
  bool accumulate = false;  // add to what `out` holds (plain segments only)
};

struct LinearArgs {
  ConstTensor x;            // [T, K], activation type
  ConstTensor norm_weight;  // BF16 [1, K], optional
  float norm_eps = 0;
  float situ_beta = 0;  // gated segments
  float situ_linear_beta = 0;
  const LinearSegment* segments = nullptr;
  int num_segments = 0;
};

}  // namespace k3::kernels
