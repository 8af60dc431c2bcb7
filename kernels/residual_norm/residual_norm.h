// Block AttnRes mix, then RMSNorm (architecture notes 2.2 and 2.1). Sources V_0..V_{n-1}, P last:
//   s_i = sum_c score[c] * V_i[c] / sqrt(mean_c V_i[c]^2 + eps)     p = softmax(s)
//   m   = sum_i p_i V_i                                             (raw values, not normalised)
//   out = m / sqrt(mean(m^2) + eps) * weight
// With one source p is exactly 1, so this is also the house's plain RMSNorm (score may be empty).
// Softmax and sums run over i ascending. Row t of the output reads source row `gather[t]`, or t.
#pragma once
#include "kernels/base/tensor.h"

namespace k3::kernels {

inline constexpr int kMaxResidualSources = 32;

struct ResidualNormArgs {
  const Tensor* sources = nullptr;       // [n] views [T', C]: activation type, or F32 for P
  int num_sources = 0;                   // 1..kMaxResidualSources
  ConstTensor score;                     // F32 [1, C]; empty allowed when n == 1
  ConstTensor weight;                    // BF16 [1, C] (or F32)
  float eps = 0;                         // inside both roots
  const std::int32_t* gather = nullptr;  // [T] or null
  Tensor mix;                            // optional [T, C]: m itself, for whoever wants to look
  Tensor out;                            // [T, C]
};

}  // namespace k3::kernels
