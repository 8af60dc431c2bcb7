// From a folder to a model that can be served. Blocking: runs on a thread of its own.
#pragma once
#include <memory>
#include <string>
#include <variant>

#include "server/flags.h"
#include "server/lifecycle.h"

namespace k3::server {

struct LoadFailure {
  int exit_code;
  std::string message;  // all faults
};

// Reports progress to the lifecycle and, now and then, to the log.
std::variant<std::unique_ptr<ServedModel>, LoadFailure> LoadModel(const Flags& flags,
                                                                  Lifecycle& lifecycle);

}  // namespace k3::server
