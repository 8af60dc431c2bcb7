// Writes a deterministic random checkpoint in exactly the released layout.
//   1. The bytes depend on the config, the layout and the seed only, not on threads or machine.
//   2. The directory appears whole or not at all (staging.h).
#pragma once
#include <cstdint>
#include <string>

#include "kernels/base/result.h"
#include "runtime/weights/make/presets.h"

namespace k3::runtime {

struct MakeOptions {
  std::string config_json;
  std::string config_path;  // for messages
  Layout layout;
  std::string dir;
  std::uint64_t seed = 1;
  bool force = false;
  int threads = 2;
};

struct MadeModel {
  std::uint64_t tensor_bytes;
  std::size_t num_tensors;
  std::size_t num_files;  // of tensors
};

Result<MadeModel> MakeModel(const MakeOptions& options);

}  // namespace k3::runtime
