#include "runtime/weights/make/staging.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

#include "runtime/config/read_file.h"

namespace k3::runtime {
namespace {

namespace fs = std::filesystem;

Result<Ok> CheckTarget(const std::string& dir, bool force) {
  std::error_code reason;
  const fs::file_status status = fs::status(dir, reason);
  if (!fs::exists(status)) return Ok{};
  if (!fs::is_directory(status)) {
    return Error{Code::kInvalidArgument, dir + ": is a file, expected a directory or nothing"};
  }
  const bool empty = fs::is_empty(dir, reason);
  if (reason) return SystemError(dir, "cannot list it", reason.value());
  if (empty) return Ok{};
  if (!force) {
    return Error{Code::kInvalidArgument,
                 dir + ": is not empty, expected a new directory (--force replaces a checkpoint)"};
  }
  if (!fs::exists(dir + "/config.json", reason)) {
    return Error{Code::kInvalidArgument,
                 dir + ": holds no config.json, so it is not a checkpoint and is not replaced"};
  }
  return Ok{};
}

Result<Ok> Clear(const std::string& dir) {
  std::error_code reason;
  for (fs::directory_iterator entry(dir, reason), end; !reason && entry != end;
       entry.increment(reason)) {
    fs::remove_all(entry->path(), reason);
    if (reason) break;
  }
  if (reason) return SystemError(dir, "cannot clear it", reason.value());
  return Ok{};
}

Result<Ok> Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    return SystemError(to, "cannot rename " + from + " to it", errno);
  }
  return Ok{};
}

}  // namespace

Result<StagingDirectory> StagingDirectory::Create(const std::string& dir, bool force) {
  std::string target = dir;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  if (target.empty() || target == "/" || target == "." || target == "..") {
    return Error{Code::kInvalidArgument, "\"" + dir + "\": expected the name of a new directory"};
  }
  if (const Result<Ok> usable = CheckTarget(target, force); !usable.ok()) return usable.error();
  const std::string staging = target + ".tmp";
  std::error_code reason;
  fs::create_directories(staging, reason);
  if (reason) return SystemError(staging, "cannot create it", reason.value());
  const int lock = open(staging.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0) return SystemError(staging, "cannot open it", errno);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    close(lock);
    return Error{Code::kUnavailable, staging + ": another run is writing here"};
  }
  if (const Result<Ok> cleared = Clear(staging); !cleared.ok()) {
    close(lock);
    return cleared.error();
  }
  return StagingDirectory(target, staging, lock);
}

StagingDirectory::StagingDirectory(std::string target, std::string staging, int lock)
    : target_(std::move(target)), staging_(std::move(staging)), lock_(lock) {}

StagingDirectory::StagingDirectory(StagingDirectory&& other) noexcept
    : target_(std::move(other.target_)),
      staging_(std::exchange(other.staging_, std::string())),
      lock_(std::exchange(other.lock_, -1)) {}

StagingDirectory::~StagingDirectory() {
  // A destructor has nobody to report to; what stays behind is cleared by the next run.
  std::error_code ignored;
  if (!staging_.empty()) fs::remove_all(staging_, ignored);
  if (lock_ >= 0) close(lock_);
}

Result<Ok> StagingDirectory::Commit() {
  std::error_code reason;
  const bool replaces = fs::exists(target_, reason) && !fs::is_empty(target_, reason);
  const std::string old = target_ + ".old";
  if (replaces) {
    fs::remove_all(old, reason);
    if (const Result<Ok> aside = Rename(target_, old); !aside.ok()) return aside.error();
  }
  if (const Result<Ok> moved = Rename(staging_, target_); !moved.ok()) {
    if (replaces) std::rename(old.c_str(), target_.c_str());
    return moved.error();
  }
  staging_.clear();
  if (replaces) fs::remove_all(old, reason);
  return Ok{};
}

Result<OutputFile> OutputFile::Create(const std::string& path) {
  constexpr mode_t kMode = 0644;
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (descriptor < 0) return SystemError(path, "cannot create it", errno);
  return OutputFile(path, descriptor);
}

OutputFile::OutputFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<Ok> OutputFile::WriteAt(std::uint64_t offset, std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return SystemError(path_, "cannot write it", errno);
    offset += static_cast<std::uint64_t>(put);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return Ok{};
}

Result<Ok> OutputFile::Resize(std::uint64_t bytes) const {
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
    return SystemError(path_, "cannot resize it", errno);
  }
  return Ok{};
}

Result<Ok> WriteWholeFile(const std::string& path, std::string_view bytes) {
  const Result<OutputFile> file = OutputFile::Create(path);
  if (!file.ok()) return file.error();
  return file.value().WriteAt(0, bytes);
}

}  // namespace k3::runtime
