#include "kernels/testing/cpu_sets.h"

#include <cstring>

namespace k3::kernels {
namespace {

bool HasV3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

}  // namespace

std::vector<const CpuOps*> AllCpuSets() {
  std::vector<const CpuOps*> sets = {&x86_64::Ops()};
  if (HasV3()) sets.push_back(&x86_64_v3::Ops());
  if (HasV3()) sets.push_back(&avx512_emulated::Ops());
  if (HasAvx512()) sets.push_back(&avx512::Ops());
  return sets;
}

const CpuOps& BestCpuSet() {
  if (HasAvx512()) return avx512::Ops();
  return HasV3() ? x86_64_v3::Ops() : x86_64::Ops();
}

void CpuRunner::Poison() {
  if (team_.size() == 1) {
    scratch_ = Scratch();
    return;
  }
  constexpr std::int64_t kBytes = std::int64_t{1} << 20;
  std::memset(scratch_.Take<std::byte>(kBytes), 0xff, kBytes);
  scratch_.Reset();
}

}  // namespace k3::kernels
