#include "runtime/weights/mapped_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "runtime/config/read_file.h"

namespace k3::runtime {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

// The size of a regular, non-empty file.
Result<std::uint64_t> MappableSize(int descriptor, const std::string& path) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return SystemError(path, "cannot look at it", errno);
  if (!S_ISREG(status.st_mode)) {
    return Error{Code::kInvalidArgument, path + ": is not a regular file"};
  }
  if (status.st_size == 0) return Error{Code::kDataLoss, path + ": is empty"};
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return SystemError(path, "cannot open it", errno);
  const Result<std::uint64_t> size = MappableSize(descriptor, path);
  if (!size.ok()) {
    close(descriptor);
    return size.error();
  }
  void* data = mmap(nullptr, size.value(), PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    const int reason = errno;
    close(descriptor);
    return SystemError(path, "cannot map it", reason);
  }
  return MappedFile(path, descriptor, static_cast<const std::byte*>(data), size.value());
}

MappedFile::MappedFile(std::string path, int descriptor, const std::byte* data, std::uint64_t size)
    : path_(std::move(path)),
      descriptor_(descriptor),
      data_(data),
      size_(size),
      registration_(data, size, path_) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      registration_(std::move(other.registration_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  registration_ = std::move(other.registration_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  munmap(const_cast<std::byte*>(data_), size_);
  close(descriptor_);
}

Result<Ok> MappedFile::ReadAt(std::uint64_t offset, std::span<char> out) const {
  K3_CHECK(offset <= size_);
  K3_CHECK(out.size() <= size_ - offset);
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(path_, "cannot read it", errno);
    if (got == 0) {
      return Error{Code::kDataLoss, path_ + ": ended at byte " + std::to_string(offset + done) +
                                        " while it was read, expected " + std::to_string(size_) +
                                        " bytes"};
    }
    done += static_cast<std::size_t>(got);
  }
  return Ok{};
}

// Advice only, here and below: a system that declines it is slower, not wrong.
void MappedFile::Advise(ReadAhead read_ahead) const {
  madvise(const_cast<std::byte*>(data_), size_,
          read_ahead == ReadAhead::kOn ? MADV_NORMAL : MADV_RANDOM);
}

void MappedFile::WillNeed(std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint64_t begin = offset / kPageBytes * kPageBytes;
  madvise(const_cast<std::byte*>(data_) + begin, offset + bytes - begin, MADV_WILLNEED);
}

}  // namespace k3::runtime
