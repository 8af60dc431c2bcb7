#include "tests/simt/residual_norm_launch.h"

#include "tests/simt/simt.h"
// Last: the kernel is written in the names that simt.h defines.
#include "kernels/residual_norm/residual_norm_kernel.cuh"

namespace k3::simt {

Report RunResidualNorm(const Options& options, const kernels::ResidualNormArgs& args) {
  namespace cuda = kernels::cuda;
  const cuda::ResidualNormLaunch launch = cuda::MakeLaunch(args);
  const Shape shape = {static_cast<unsigned>(args.out.rows), cuda::kResidualNormThreads,
                       cuda::SharedBytes(launch)};
  return Launch(cuda::ResidualNormKernel, shape, options, launch);
}

}  // namespace k3::simt
