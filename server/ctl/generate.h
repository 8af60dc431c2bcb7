// `k3ctl generate`: a prompt in, its choices out.
//   1. One choice without log probabilities streams as it comes. Otherwise each choice is shown
//      whole and labelled when it has ended, for tokens of several choices make no text together.
//   2. stdout has the answer alone; usage and faults are on stderr. With `json` stdout has one
//      event a line (one result with `unary`) and stderr no usage.
//   3. All faults of the command are told together (ToRequest).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/result.h"

namespace k3serve::v1 {
class GenerateRequest;
}

namespace k3::server::ctl {

struct GenerateCommand {
  std::string server;
  std::string text;
  std::vector<std::uint32_t> prompt_ids;  // instead of text
  std::string request_id;
  // Of the protocol's messages; what is unset is left to the server.
  std::optional<float> temperature, top_p, min_p;
  std::optional<std::int32_t> top_k;
  std::optional<float> presence_penalty, frequency_penalty, repetition_penalty;
  std::optional<std::uint64_t> seed;
  std::optional<std::uint32_t> n;
  std::vector<std::string> logit_bias;  // ID=VALUE
  std::vector<std::uint32_t> allowed_token_ids;
  std::optional<std::int32_t> max_tokens, min_tokens;
  std::vector<std::string> stop_strings;
  std::vector<std::uint32_t> stop_token_ids;
  bool ignore_eos = false;
  bool include_stop = false;
  std::optional<std::uint32_t> logprobs;
  std::optional<std::int32_t> priority;
  std::optional<std::uint32_t> queue_timeout_ms;
  // Of the call and its display.
  std::optional<double> timeout_seconds;
  bool unary = false;
  bool show_ids = false;
  bool json = false;
};

Result<k3serve::v1::GenerateRequest> ToRequest(const GenerateCommand& command);

int Generate(const GenerateCommand& command);  // the exit code, as in client.h

}  // namespace k3::server::ctl
