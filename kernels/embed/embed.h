// out[t] = table[ids[t]], widened to the activation type; no scaling (architecture notes 2.1).
#pragma once
#include "kernels/base/tensor.h"

namespace k3::kernels {

struct EmbedArgs {
  const std::int32_t* ids = nullptr;  // [T], each inside the table
  ConstTensor table;                  // BF16 [V, C]
  Tensor out;                         // [T, C], activation type
};

}  // namespace k3::kernels
