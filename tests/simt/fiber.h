// A stack to run on, and the switch between two of them: callee-saved registers only (x86-64 System
// V), about 2 ns where the C library's swapcontext takes 300.
#pragma once
#include <cstddef>
#include <memory>

namespace k3::simt {

class FiberStack {
 public:
  FiberStack();
  // The stack pointer from which `entry` starts when it is switched to; entry never returns.
  void* Prepare(void (*entry)());

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

// Saves the running context's stack pointer in *save and continues at `load`.
extern "C" void k3_simt_switch(void** save, void* load);

}  // namespace k3::simt
