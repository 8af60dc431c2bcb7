// The weights fingerprint of design section 5, law 6: two checkpoints that differ get different
// prefix-cache namespaces, without reading a terabyte.
#pragma once
#include <string>
#include <string_view>

#include "kernels/base/result.h"
#include "runtime/weights/safetensors.h"

namespace k3::runtime {

// Feed the files in a fixed order (sorted by name); paths and names do not enter.
class Fingerprint {
 public:
  static constexpr int kSamples = 64;
  static constexpr std::uint64_t kSampleBytes = 4096;

  explicit Fingerprint(std::string_view config_json);
  // The file's size, its header, and kSamples evenly spread samples, the first at the file's
  // start and the last at its end. A file of no more than kSamples * kSampleBytes counts whole.
  Result<Ok> AddFile(const MappedFile& file, std::string_view header_json);
  std::string Hex() const;

 private:
  void AddHash(std::string_view bytes);

  std::string digests_;  // length-framed by construction: every part adds a fixed size
};

}  // namespace k3::runtime
