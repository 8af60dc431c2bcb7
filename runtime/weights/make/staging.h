// A directory that appears whole or not at all: files are written to DIR.tmp, and Commit renames.
//   1. DIR.tmp is locked while in use; what a killed run left there is cleared, another run's
//      is an error.
//   2. An existing DIR that is not empty is only replaced by force, and only if it holds a
//      config.json: a mistyped path must not cost anyone their home directory.
//   3. Without Commit nothing is left behind.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/base/result.h"

namespace k3::runtime {

class StagingDirectory {
 public:
  static Result<StagingDirectory> Create(const std::string& dir, bool force);
  ~StagingDirectory();
  StagingDirectory(StagingDirectory&& other) noexcept;
  StagingDirectory& operator=(StagingDirectory&&) = delete;
  StagingDirectory(const StagingDirectory&) = delete;
  StagingDirectory& operator=(const StagingDirectory&) = delete;

  const std::string& path() const { return staging_; }
  Result<Ok> Commit();

 private:
  StagingDirectory(std::string target, std::string staging, int lock);

  std::string target_;
  std::string staging_;  // empty once committed or moved from
  int lock_;
};

// A new file, written at any offset from any thread; the first failure of each call is returned.
class OutputFile {
 public:
  static Result<OutputFile> Create(const std::string& path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Result<Ok> WriteAt(std::uint64_t offset, std::string_view bytes) const;
  // A sparse file of this size; holes read as zeros.
  Result<Ok> Resize(std::uint64_t bytes) const;

 private:
  OutputFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_;
};

Result<Ok> WriteWholeFile(const std::string& path, std::string_view bytes);

}  // namespace k3::runtime
