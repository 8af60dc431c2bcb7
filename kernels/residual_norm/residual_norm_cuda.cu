#include "kernels/base/check.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/residual_norm/residual_norm_kernel.cuh"

namespace k3::kernels::cuda {

void ResidualNorm(const ResidualNormArgs& args, void* stream) {
  K3_CHECK(args.num_sources >= 1);
  K3_CHECK(args.num_sources <= kMaxResidualSources);
  if (args.out.rows == 0) return;
  const ResidualNormLaunch launch = MakeLaunch(args);
  const auto rows = static_cast<unsigned>(args.out.rows);
  ResidualNormKernel<<<rows, kResidualNormThreads, SharedBytes(launch),
                       static_cast<cudaStream_t>(stream)>>>(launch);
  K3_CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace k3::kernels::cuda
