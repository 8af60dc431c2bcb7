// The CPU's ops, one table per instruction set. Every `x_cpu.cc` is compiled once per set, into a
// namespace of its own; backend_cpu.cc picks a table at start.
#pragma once
#include "kernels/backend.h"
#include "kernels/base/scratch.h"
#include "kernels/base/thread_team.h"

namespace k3::kernels {

// What a CPU op works with besides its Args.
struct CpuContext {
  ThreadTeam& team;
  Scratch& scratch;  // empty at the start of every op
};

struct CpuOps {
  const char* isa;
  std::int64_t (*kda_window_bytes)(const PageLayout& layout);
  void (*embed)(const EmbedArgs&, CpuContext&);
  void (*residual_norm)(const ResidualNormArgs&, CpuContext&);
  void (*linear)(const LinearArgs&, CpuContext&);
  void (*kda_mix)(const KdaMixArgs&, CpuContext&);
  void (*mla_attend)(const MlaAttendArgs&, CpuContext&);
  void (*route)(const RouteArgs&, CpuContext&);
  void (*experts)(const ExpertsArgs&, CpuContext&);
  void (*sample)(const SampleArgs&, CpuContext&);
};

// Declared here, defined by kernels/cpu_ops.cc once per set.
namespace avx512 {
const CpuOps& Ops();
}
namespace x86_64_v3 {
const CpuOps& Ops();
}
namespace x86_64 {
const CpuOps& Ops();
}
// The AVX-512 source on emulated intrinsics: for tests only.
namespace avx512_emulated {
const CpuOps& Ops();
}

}  // namespace k3::kernels
