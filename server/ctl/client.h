// The short verbs of k3ctl: one question, one answer on stdout; each returns the exit code.
//   0 well; 1 `health` says NOT_SERVING, `bench` got no answer; 2 the command itself is wrong;
//   10 + the gRPC status code otherwise (13 INVALID_ARGUMENT, 24 UNAVAILABLE, ...)
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace k3::server::ctl {

struct AbortCommand {
  std::string server;
  std::vector<std::string> request_ids;
  std::string prefix;
  bool all = false;
  std::string reason;
};

int Health(const std::string& server, const std::string& service);
int Info(const std::string& server);
int ServerInfo(const std::string& server, bool json);
int Tokenize(const std::string& server, const std::string& text);
int Detokenize(const std::string& server, const std::vector<std::uint32_t>& ids);
int Abort(const AbortCommand& command);  // naming nobody is a wrong command, not "all"
int Drain(const std::string& server, std::optional<std::uint32_t> timeout_seconds);

}  // namespace k3::server::ctl
