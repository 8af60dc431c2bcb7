#include <cstring>

#include "kernels/ref_ops.h"

namespace k3::kernels::ref {

void Copy(const CopyArgs& args) {
  const auto bytes = static_cast<std::size_t>(args.page_bytes);
  for (int i = 0; i < args.num_zero; ++i)
    std::memset(args.pages + args.zero[i] * args.page_bytes, 0, bytes);
  for (int i = 0; i < args.num_copies; ++i) {
    std::memcpy(args.pages + args.to[i] * args.page_bytes,
                args.pages + args.from[i] * args.page_bytes, bytes);
  }
}

}  // namespace k3::kernels::ref
