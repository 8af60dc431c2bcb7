// A file mapped read-only, whole, for the life of this object.
//   1. The mapping's address does not change when the object moves.
//   2. Touching a page beyond the file's end (it shrank) ends in mapping_fault.h's message.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/base/result.h"
#include "runtime/weights/mapping_fault.h"

namespace k3::runtime {

class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  const std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }

  // Copies a range without mapping its pages in: samples of a file of terabytes stay out of our
  // resident set. The range lies inside the file.
  Result<Ok> ReadAt(std::uint64_t offset, std::span<char> out) const;
  // Whether a touched page brings its neighbours along. Not while opening: a few hundred scattered
  // touches of the release would otherwise read gigabytes.
  enum class ReadAhead { kOff, kOn };
  void Advise(ReadAhead read_ahead) const;
  // Asks the system to start reading a range.
  void WillNeed(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  MappedFile(std::string path, int descriptor, const std::byte* data, std::uint64_t size);

  std::string path_;
  int descriptor_;
  const std::byte* data_;
  std::uint64_t size_;
  MappingRegistration registration_;
};

}  // namespace k3::runtime
