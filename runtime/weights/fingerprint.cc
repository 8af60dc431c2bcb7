#include "runtime/weights/fingerprint.h"

#include <algorithm>
#include <array>
#include <xxhash.h>

namespace k3::runtime {
namespace {

constexpr std::string_view kDomain = "k3serve weights 1";

std::array<unsigned char, 16> Hash(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  std::array<unsigned char, 16> digest{};
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), digest.begin());
  return digest;
}

}  // namespace

Fingerprint::Fingerprint(std::string_view config_json) {
  AddHash(kDomain);
  AddHash(config_json);
}

void Fingerprint::AddHash(std::string_view bytes) {
  for (const unsigned char byte : Hash(bytes)) digests_ += static_cast<char>(byte);
}

Result<Ok> Fingerprint::AddFile(const MappedFile& file, std::string_view header_json) {
  AddHash(std::to_string(file.size()));
  AddHash(header_json);
  const std::uint64_t budget = kSamples * kSampleBytes;
  std::string samples(std::min(file.size(), budget), '\0');
  if (file.size() <= budget) {
    if (const Result<Ok> read = file.ReadAt(0, samples); !read.ok()) return read.error();
    AddHash(samples);
    return Ok{};
  }
  const std::uint64_t last = file.size() - kSampleBytes;
  for (int sample = 0; sample < kSamples; ++sample) {
    const auto index = static_cast<std::uint64_t>(sample);
    // Divided before multiplied: the product stays below the file's size.
    const std::uint64_t offset = sample == kSamples - 1 ? last : last / (kSamples - 1) * index;
    const std::span<char> out(samples.data() + index * kSampleBytes, kSampleBytes);
    if (const Result<Ok> read = file.ReadAt(offset, out); !read.ok()) return read.error();
  }
  AddHash(samples);
  return Ok{};
}

std::string Fingerprint::Hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : Hash(digests_)) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

}  // namespace k3::runtime
