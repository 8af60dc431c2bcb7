// The safetensors container: an 8-byte little-endian length, a JSON header of that length, and the
// tensors' bytes. Everything a header says is checked here against the file, so that what is
// returned can be followed without a further look.
//   1. data_start + end <= file size; every range has exactly the bytes of its shape and dtype.
//   2. The ranges cover the data area without gap or overlap; names are unique.
//   3. All arithmetic on numbers from the file is checked for overflow.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/result.h"
#include "runtime/weights/mapped_file.h"

namespace k3::runtime {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

struct StoredTensor {
  std::string name;
  std::string_view dtype;  // "BF16", "F32", ...: one of the format's names
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // relative to the data area
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::uint64_t data_start = 0;       // in the file
  std::string json;                   // the header's text, for the fingerprint
  std::vector<StoredTensor> tensors;  // in the order of their bytes
};

// `data_bytes` is the size of the data area, `path` is for messages.
Result<std::vector<StoredTensor>> ParseSafetensorsHeader(std::string_view json,
                                                         std::uint64_t data_bytes,
                                                         const std::string& path);

Result<SafetensorsHeader> ReadSafetensorsHeader(const MappedFile& file);

// "[96, 4]", for messages.
std::string ShapeText(const std::vector<std::int64_t>& shape);

}  // namespace k3::runtime
