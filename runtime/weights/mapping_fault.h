// A mapped file that shrinks under us is a SIGBUS at the next touch. This turns it into a message
// that names the file, and exit code kMappingFaultExitCode, instead of a core dump.
//   1. The handler is installed once, by main, and only uses async-signal-safe calls.
//   2. Mappings live in a fixed table of lock-free slots; one more than fits is simply not named.
//   3. A SIGBUS outside the known mappings takes its default course.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace k3::runtime {

inline constexpr int kMappingFaultExitCode = 74;  // EX_IOERR of sysexits.h

void InstallMappingFaultHandler();

// The table's slot of one mapping; used by MappedFile only.
class MappingRegistration {
 public:
  MappingRegistration(const void* begin, std::size_t size, std::string_view path);
  ~MappingRegistration();
  MappingRegistration(MappingRegistration&& other) noexcept;
  MappingRegistration& operator=(MappingRegistration&& other) noexcept;
  MappingRegistration(const MappingRegistration&) = delete;
  MappingRegistration& operator=(const MappingRegistration&) = delete;

 private:
  std::optional<std::size_t> slot_;
};

}  // namespace k3::runtime
