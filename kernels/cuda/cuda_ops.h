// The ops that have a CUDA sibling. Tensors point into device memory; `stream` is a cudaStream_t,
// which only .cu files may name.
#pragma once
#include "kernels/residual_norm/residual_norm.h"

namespace k3::kernels::cuda {

void ResidualNorm(const ResidualNormArgs& args, void* stream);

}  // namespace k3::kernels::cuda
