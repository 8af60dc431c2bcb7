// Runs one op of one instruction set, the way the cpu backend does.
#pragma once
#include <span>
#include <vector>

#include "kernels/cpu_ops.h"

namespace k3::kernels {

// The sets this machine can run: x86_64 always; x86_64_v3, avx512 and avx512_emulated when the CPU
// has what they need. The first is the one to compare the others with.
std::vector<const CpuOps*> AllCpuSets();
// The widest real set of this machine: what the cpu backend would pick.
const CpuOps& BestCpuSet();

// Scratch is full of NaN bits when `threads` > 1 and freshly allocated (so that AddressSanitizer
// guards each piece) when it is 1.
class CpuRunner {
 public:
  explicit CpuRunner(int threads) : team_(threads) { Poison(); }

  template <typename Args>
  void Run(void (*op)(const Args&, CpuContext&), const Args& args) {
    CpuContext context{team_, scratch_};
    op(args, context);
    scratch_.Reset();
    Poison();
  }

 private:
  void Poison();

  ThreadTeam team_;
  Scratch scratch_;
};

template <typename Args>
void RunCpu(void (*op)(const Args&, CpuContext&), const Args& args, int threads = 1) {
  CpuRunner(threads).Run(op, args);
}

}  // namespace k3::kernels
