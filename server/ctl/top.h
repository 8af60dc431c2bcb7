// `k3ctl top`: a server's load, again and again until SIGINT or SIGTERM.
//   1. On a terminal it draws over itself and leaves the screen as it was. Anywhere else, and with
//      `once`, it prints plain text; with `json` one snapshot a line.
//   2. `once` takes two snapshots an interval apart, for the rates; with `json` the first will do.
//   3. The first call that fails ends it, with that exit code.
#pragma once
#include <cstdint>
#include <string>

namespace k3::server::ctl {

struct TopCommand {
  std::string server;
  double interval_seconds = 1;
  std::uint32_t requests = 10;  // of the oldest, to list
  bool once = false;
  bool json = false;
};

int Top(const TopCommand& command);

}  // namespace k3::server::ctl
