#include "tests/simt/fiber.h"

#include <cstdint>

__asm__(R"(
.text
.globl k3_simt_switch
.type k3_simt_switch, @function
k3_simt_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size k3_simt_switch, .-k3_simt_switch
)");

namespace k3::simt {
namespace {
constexpr std::size_t kStackBytes = 64 << 10;
constexpr int kSavedRegisters = 6;
}  // namespace

FiberStack::FiberStack() : bytes_(std::make_unique<std::byte[]>(kStackBytes)) {}

void* FiberStack::Prepare(void (*entry)()) {
  std::byte* end = bytes_.get() + kStackBytes;
  end -= reinterpret_cast<std::uintptr_t>(end) % 64;
  auto** top = reinterpret_cast<void**>(end);
  *--top = nullptr;  // a return address for entry, which never returns; keeps the ABI's alignment
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--top = nullptr;
  return top;
}

}  // namespace k3::simt
