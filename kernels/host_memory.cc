#include "kernels/host_memory.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace k3::kernels {

Result<Memory> AllocateHost(std::size_t bytes) {
  if (bytes == 0) return Memory();
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Error{Code::kResourceExhausted, "the host has no " + std::to_string(bytes) +
                                               " bytes of memory to map (" +
                                               std::string(std::strerror(errno)) + ")"};
  }
  // Advice only: without huge pages everything works, a little slower.
  madvise(data, bytes, MADV_HUGEPAGE);
  return Memory(static_cast<std::byte*>(data), bytes,
                [](std::byte* mapped, std::size_t size) { munmap(mapped, size); });
}

}  // namespace k3::kernels
