// What every call needs, on every surface. All outlive the servers that use them.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "server/call_registry.h"
#include "server/lifecycle.h"
#include "server/metrics.h"
#include "server/request_log.h"
#include "server/settings.h"
#include "server/text_pool.h"

namespace k3::server {

// What an operator may ask of the program around the servers.
struct ProgramHandle {
  std::vector<Setting> settings;  // in force
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  // As SIGTERM, with this timeout instead of --drain-timeout; returns at once. Any thread.
  std::function<void(std::optional<std::chrono::seconds> timeout)> drain;
};

struct FrontEnd {
  const Lifecycle& lifecycle;
  Metrics& metrics;
  TextPool& pool;
  CallRegistry& calls;
  const RequestLog& log;
  const ProgramHandle& program;
};

}  // namespace k3::server
