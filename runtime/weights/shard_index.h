// model.safetensors.index.json: which file holds which tensor. The release's has 60 MB and half a
// million entries, so it is read event by event and never held as a document.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "kernels/base/result.h"

namespace k3::runtime {

inline constexpr std::size_t kMaxIndexBytes = 1 << 30;

using IndexEntry = std::function<void(std::string_view tensor, std::string_view file)>;

// Calls `entry` for every line of weight_map, in file order. Other keys are passed over.
Result<Ok> ParseShardIndex(std::string_view json, const std::string& path, const IndexEntry& entry);

}  // namespace k3::runtime
