// What k3serve was told, by command line, environment, file and defaults (settings.h). All faults
// of all sources are reported together.
#pragma once
#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "runtime/engine/engine.h"
#include "server/settings.h"

namespace k3::server {

struct Flags {
  std::string model;               // a checkpoint's folder
  std::vector<std::string> names;  // served names, at least one; the first is the primary one
  std::string host;
  int http_port = 0;
  int grpc_port = 0;
  int grpc_max_message_bytes = 0;
  runtime::EngineOptions engine;
  bool warmup = false;
  std::chrono::seconds drain_timeout{};
  std::string log_level;
  std::string log_format;     // text, json
  bool log_requests = false;  // a line per request: numbers and ids, never words
  bool metrics_compat_vllm = false;
  std::vector<Setting> settings;  // all of the above as text, with its origin
};

// Nothing is to be served: print `text` and leave with `code`.
struct EarlyExit {
  int code;
  std::string text;
};

// `environment` as environ(7) has it.
std::variant<Flags, EarlyExit> ParseFlags(int argc, const char* const* argv,
                                          const char* const* environment);
// With the process's own environment.
std::variant<Flags, EarlyExit> ParseFlags(int argc, const char* const* argv);

}  // namespace k3::server
