// Which of the instruction sets built here this CPU can run, widest first.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu_ops.h"

namespace k3::kernels {

struct CpuIsa {
  std::string_view name;  // as people write it: "avx512", "x86-64-v3", "x86-64"
  const CpuOps* ops;
};

std::vector<CpuIsa> UsableIsas();

// A cpu backend on the given table, for tests that also run the emulated one. The caller vouches
// that this CPU has what the table needs.
std::unique_ptr<Backend> MakeCpuBackendOf(const CpuIsa& isa, int threads);

}  // namespace k3::kernels
