#include "server/ctl/client.h"

#include <cstdio>

#include "proto/k3serve/v1/control.pb.h"
#include "proto/k3serve/v1/inference.pb.h"
#include "server/ctl/message_json.h"
#include "server/ctl/remote.h"
#include "server/exit_codes.h"

namespace k3::server::ctl {
namespace {

constexpr int kNotServing = 1;

void ShowSettings(const pb::ServerInfo& info) {
  std::printf("k3serve %s, %s, up %.0f s\n", info.server_version().c_str(), info.state().c_str(),
              info.uptime_seconds());
  for (const pb::Setting& setting : info.settings()) {
    std::printf("%-28s %-24s %s\n", setting.name().c_str(), setting.value().c_str(),
                setting.origin().c_str());
  }
}

}  // namespace

int Health(const std::string& server, const std::string& service) {
  bool serving = false;
  const Outcome outcome = Remote(server).Health(service, serving);
  if (!outcome.ok()) return Report(outcome);
  std::puts(serving ? "SERVING" : "NOT_SERVING");
  return serving ? 0 : kNotServing;
}

int Info(const std::string& server) {
  pb::ModelInfo info;
  const Outcome outcome = Remote(server).GetModelInfo(info);
  if (outcome.ok()) std::fputs(ToJsonBlock(info).c_str(), stdout);
  return Report(outcome);
}

int ServerInfo(const std::string& server, bool json) {
  pb::ServerInfo info;
  const Outcome outcome = Remote(server).GetServerInfo(info);
  if (!outcome.ok()) return Report(outcome);
  if (json) {
    std::fputs(ToJsonBlock(info).c_str(), stdout);
  } else {
    ShowSettings(info);
  }
  return 0;
}

int Tokenize(const std::string& server, const std::string& text) {
  pb::TokenizeRequest request;
  request.set_text(text);
  pb::TokenizeResponse response;
  const Outcome outcome = Remote(server).Tokenize(request, response);
  if (!outcome.ok()) return Report(outcome);
  const char* separator = "";
  for (const std::uint32_t id : response.token_ids()) {
    std::printf("%s%u", separator, id);
    separator = " ";
  }
  std::puts("");
  return 0;
}

int Detokenize(const std::string& server, const std::vector<std::uint32_t>& ids) {
  pb::DetokenizeRequest request;
  request.mutable_token_ids()->Add(ids.begin(), ids.end());
  pb::DetokenizeResponse response;
  const Outcome outcome = Remote(server).Detokenize(request, response);
  if (outcome.ok()) std::puts(response.text().c_str());
  return Report(outcome);
}

int Abort(const AbortCommand& command) {
  if (command.request_ids.empty() && command.prefix.empty() && !command.all) {
    std::fputs("k3ctl: abort whom? Give request ids, --prefix or --all\n", stderr);
    return kExitUsage;
  }
  pb::AbortRequest request;
  for (const std::string& id : command.request_ids) request.add_request_ids(id);
  request.set_prefix(command.prefix);
  request.set_all(command.all);
  request.set_reason(command.reason);
  pb::AbortResponse response;
  const Outcome outcome = Remote(command.server).Abort(request, response);
  if (outcome.ok()) std::printf("%u aborted\n", response.aborted());
  return Report(outcome);
}

int Drain(const std::string& server, std::optional<std::uint32_t> timeout_seconds) {
  pb::DrainRequest request;
  if (timeout_seconds) request.set_timeout_seconds(*timeout_seconds);
  pb::DrainResponse response;
  const Outcome outcome = Remote(server).Drain(request, response);
  if (outcome.ok()) {
    std::printf("draining: %u running, %u waiting\n", response.running(), response.waiting());
  }
  return Report(outcome);
}

}  // namespace k3::server::ctl
