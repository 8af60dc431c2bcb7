// The command line of k3serve. All faults are reported together.
#pragma once
#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "runtime/engine/engine.h"

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
};

// Nothing is to be served: print `text` and leave with `code`.
struct EarlyExit {
  int code;
  std::string text;
};

std::variant<Flags, EarlyExit> ParseFlags(int argc, const char* const* argv);

}  // namespace k3::server
