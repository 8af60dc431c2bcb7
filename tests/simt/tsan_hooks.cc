// The calls that -fsanitize=thread plants in kernel code, answered by us: libtsan is not linked.
#include <cstddef>

#include "tests/simt/machine.h"

// The compiler chose these names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
#define K3_HOOK(name, bytes)                             \
  extern "C" void __tsan_##name##read##bytes(void* p) {  \
    k3::simt::OnAccess(p, bytes, false);                 \
  }                                                      \
  extern "C" void __tsan_##name##write##bytes(void* p) { \
    k3::simt::OnAccess(p, bytes, true);                  \
  }
#define K3_HOOKS(bytes)      \
  K3_HOOK(, bytes)           \
  K3_HOOK(unaligned_, bytes) \
  K3_HOOK(volatile_, bytes)
K3_HOOKS(1)
K3_HOOKS(2)
K3_HOOKS(4)
K3_HOOKS(8)
K3_HOOKS(16)

extern "C" void __tsan_read_range(void* p, std::size_t n) {
  k3::simt::OnAccess(p, n, false);
}
extern "C" void __tsan_write_range(void* p, std::size_t n) {
  k3::simt::OnAccess(p, n, true);
}
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_vptr_update(void**, void*) {}
extern "C" void __tsan_vptr_read(void**) {}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
