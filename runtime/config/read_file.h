// Reads a small file whole.
#pragma once
#include <cstddef>
#include <string>

#include "kernels/base/result.h"

namespace k3::runtime {

// Errors name the path and the system's reason; a file of more than `max_bytes` is refused.
Result<std::string> ReadFile(const std::string& path, std::size_t max_bytes);

// "path: what: the system's text for error_number". Missing files are kNotFound, others kDataLoss.
Error SystemError(const std::string& path, const std::string& what, int error_number);

}  // namespace k3::runtime
