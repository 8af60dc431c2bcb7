// In every build without CUDA: the name exists, and says what is missing.
#include "kernels/backend.h"

namespace k3::kernels {

Result<std::unique_ptr<Backend>> MakeCudaBackend() {
  return Error{
      Code::kUnimplemented,
      "this k3serve was built without CUDA; choose --device cpu, or build the `cuda` preset "
      "with CUDA 12.8 or newer"};
}

}  // namespace k3::kernels
