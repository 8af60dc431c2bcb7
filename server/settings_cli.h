// The command line as a source of settings.
#pragma once
#include <string>
#include <vector>

#include "server/settings.h"

namespace k3::server {

struct CommandLine {
  std::vector<Given> given;
  std::string help;  // what --help prints; empty when nobody asked
  bool version = false;
  bool print_config = false;
};

CommandLine FromCommandLine(const SettingTable& table, int argc, const char* const* argv,
                            Faults& faults);

}  // namespace k3::server
