// Compiled once per instruction set: gathers that set's functions into its table.
#include "kernels/cpu_ops.h"

#ifndef K3_ISA
#error "built only as part of an instruction-set object library: see kernels/CMakeLists.txt"
#endif
#define K3_STRING2(x) #x
#define K3_STRING(x) K3_STRING2(x)

namespace k3::kernels::K3_ISA {

std::int64_t KdaWindowBytes(const PageLayout& layout);
void Embed(const EmbedArgs& args, CpuContext& context);
void ResidualNorm(const ResidualNormArgs& args, CpuContext& context);
void Linear(const LinearArgs& args, CpuContext& context);
void KdaMix(const KdaMixArgs& args, CpuContext& context);
void MlaAttend(const MlaAttendArgs& args, CpuContext& context);
void Route(const RouteArgs& args, CpuContext& context);
void Experts(const ExpertsArgs& args, CpuContext& context);
void Sample(const SampleArgs& args, CpuContext& context);

const CpuOps& Ops() {
  static constexpr CpuOps kOps = {
      K3_STRING(K3_ISA), KdaWindowBytes, Embed,   ResidualNorm, Linear, KdaMix,
      MlaAttend,         Route,          Experts, Sample};
  return kOps;
}

}  // namespace k3::kernels::K3_ISA
