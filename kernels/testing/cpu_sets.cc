#include "kernels/testing/cpu_sets.h"

#include <cstring>

#include "kernels/cpu_isa.h"

namespace k3::kernels {

std::vector<const CpuOps*> AllCpuSets() {
  const std::vector<CpuIsa> usable = UsableIsas();
  std::vector<const CpuOps*> sets;
  for (auto isa = usable.rbegin(); isa != usable.rend(); ++isa) sets.push_back(isa->ops);
  if (sets.size() > 1) sets.push_back(&avx512_emulated::Ops());
  return sets;
}

const CpuOps& BestCpuSet() {
  return *UsableIsas().front().ops;
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
