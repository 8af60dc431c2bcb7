// Reads the small golden safetensors files, whole, into memory. For tests only: a damaged file is
// a failed check here, never a user's error.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/testing/buffer.h"

namespace k3::kernels {

// $K3_SHARED/golden, or nothing where the large test data is missing.
std::optional<std::string> GoldenDir();

class GoldenFile {
 public:
  // The file at `path`, or nothing (with a line "NOT RUN: ...") when it is not there.
  static std::optional<GoldenFile> Open(const std::string& path);
  // The same for a path below GoldenDir(), such as "vectors/ops.safetensors".
  static std::optional<GoldenFile> OpenShared(const std::string& relative);

  bool Has(const std::string& name) const { return entries_.contains(name); }
  const std::vector<std::int64_t>& Shape(const std::string& name) const;
  // Rows are all dimensions but the last, multiplied. T: float, double, std::int32_t, Bf16 or
  // std::uint8_t, and it must be what the file holds.
  template <typename T>
  Matrix<T> Read(const std::string& name) const;

 private:
  struct Entry {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::size_t begin = 0, end = 0;
  };
  const Entry& Find(const std::string& name) const;
  void CopyOut(const std::string& name, const char* dtype, void* out, std::size_t bytes) const;

  std::map<std::string, Entry> entries_;
  std::string bytes_;
};

template <typename T>
struct GoldenName;
template <>
struct GoldenName<float> {
  static constexpr const char* value = "F32";
};
template <>
struct GoldenName<double> {
  static constexpr const char* value = "F64";
};
template <>
struct GoldenName<std::int32_t> {
  static constexpr const char* value = "I32";
};
template <>
struct GoldenName<Bf16> {
  static constexpr const char* value = "BF16";
};
template <>
struct GoldenName<std::uint8_t> {
  static constexpr const char* value = "U8";
};

template <typename T>
Matrix<T> GoldenFile::Read(const std::string& name) const {
  const std::vector<std::int64_t>& shape = Shape(name);
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  Matrix<T> out(rows, shape.empty() ? 1 : shape.back());
  CopyOut(name, GoldenName<T>::value, out.span().data(), out.span().size_bytes());
  return out;
}

}  // namespace k3::kernels
