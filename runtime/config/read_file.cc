#include "runtime/config/read_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace k3::runtime {
namespace {

Result<std::string> ReadAll(int descriptor, const std::string& path, std::size_t max_bytes) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return SystemError(path, "cannot look at it", errno);
  if (!S_ISREG(status.st_mode)) {
    return Error{Code::kInvalidArgument, path + ": is not a regular file"};
  }
  if (static_cast<std::size_t>(status.st_size) > max_bytes) {
    return Error{Code::kInvalidArgument, path + ": has " + std::to_string(status.st_size) +
                                             " bytes, expected at most " +
                                             std::to_string(max_bytes)};
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = read(descriptor, text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(path, "cannot read it", errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return text;
}

}  // namespace

Error SystemError(const std::string& path, const std::string& what, int error_number) {
  const bool missing = error_number == ENOENT || error_number == ENOTDIR;
  return {missing ? Code::kNotFound : Code::kDataLoss,
          path + ": " + what + ": " + std::generic_category().message(error_number)};
}

Result<std::string> ReadFile(const std::string& path, std::size_t max_bytes) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return SystemError(path, "cannot open it", errno);
  Result<std::string> text = ReadAll(descriptor, path, max_bytes);
  close(descriptor);
  return text;
}

}  // namespace k3::runtime
