#include "kernels/backend.h"

namespace k3::kernels {

Result<std::unique_ptr<Backend>> MakeBackend(std::string_view name, const CpuOptions& options) {
  if (name == "ref") return MakeRefBackend();
  if (name == "cpu") return MakeCpuBackend(options);
  if (name == "cuda") return MakeCudaBackend();
  return Error{Code::kInvalidArgument,
               "device \"" + std::string(name) + "\": expected ref, cpu or cuda"};
}

}  // namespace k3::kernels
