#include "server/process_stats.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include "server/family_builder.h"

namespace k3::server {
namespace {

using prometheus::MetricType;

// Fields of /proc/self/stat after the name, which may hold blanks and brackets: the state is 0.
// proc(5) counts from 1 and the state is its third.
constexpr std::size_t kUserTicks = 14 - 3;
constexpr std::size_t kSystemTicks = 15 - 3;
constexpr std::size_t kThreads = 20 - 3;
constexpr std::size_t kStartTicks = 22 - 3;
constexpr std::size_t kVirtualBytes = 23 - 3;
constexpr std::size_t kResidentPages = 24 - 3;

std::vector<double> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string state;
  rest >> state;
  std::vector<double> fields = {0};
  for (double field = 0; rest >> field;) fields.push_back(field);
  return fields;
}

// When the machine started, in seconds since the epoch.
std::optional<double> BootTime() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("btime ")) return std::stod(line.substr(6));
  }
  return std::nullopt;
}

void AddStat(FamilyBuilder& builder) {
  const std::vector<double> fields = StatFields();
  if (fields.size() <= kResidentPages) return;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  builder.Family("process_cpu_seconds_total", "User and system time of all threads",
                 MetricType::Counter);
  builder.Value((fields[kUserTicks] + fields[kSystemTicks]) / ticks);
  builder.Gauge("process_virtual_memory_bytes", "Size of the address space", fields[kVirtualBytes]);
  builder.Gauge("process_resident_memory_bytes", "Memory in use, mapped weights too",
                fields[kResidentPages] * static_cast<double>(sysconf(_SC_PAGESIZE)));
  builder.Gauge("process_threads", "Threads", fields[kThreads]);
  if (const std::optional<double> boot = BootTime()) {
    builder.Gauge("process_start_time_seconds", "Since the epoch",
                  *boot + fields[kStartTicks] / ticks);
  }
}

void AddDescriptors(FamilyBuilder& builder) {
  std::error_code unreadable;
  const std::filesystem::directory_iterator entries("/proc/self/fd", unreadable);
  if (!unreadable) {
    // The iterator's own one is among them.
    const auto open = std::distance(begin(entries), end(entries)) - 1;
    builder.Gauge("process_open_fds", "Open file descriptors", static_cast<double>(open));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    builder.Gauge("process_max_fds", "Most file descriptors it may open",
                  static_cast<double>(limit.rlim_cur));
  }
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessFamilies() {
  FamilyBuilder builder({});
  AddStat(builder);
  AddDescriptors(builder);
  return builder.Take();
}

}  // namespace k3::server
