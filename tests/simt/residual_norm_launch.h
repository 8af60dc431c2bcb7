// kernels/residual_norm's GPU kernel, run by the machine; compiled with the hooks.
#pragma once
#include "kernels/residual_norm/residual_norm.h"
#include "tests/simt/machine.h"

namespace k3::simt {

Report RunResidualNorm(const Options& options, const kernels::ResidualNormArgs& args);

}  // namespace k3::simt
