// Host memory of the cpu and ref backends: anonymous mappings, zero until written, huge pages where
// the kernel grants them.
#pragma once
#include "kernels/backend.h"

namespace k3::kernels {

// kResourceExhausted, with the bytes asked for, when the system has no such memory.
Result<Memory> AllocateHost(std::size_t bytes);

}  // namespace k3::kernels
