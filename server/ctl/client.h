// What k3ctl does, one function a verb; each returns the exit code.
//   0 well; 10 + the gRPC status code otherwise (13 INVALID_ARGUMENT, 24 UNAVAILABLE, ...)
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace k3::server::ctl {

struct GenerateCommand {
  std::string server;
  std::string text;
  std::vector<std::uint32_t> prompt_ids;  // instead of text
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<std::uint64_t> seed;
  std::optional<int> max_tokens;
  bool ignore_eos = false;
  bool show_ids = false;
};

int Generate(const GenerateCommand& command);  // the text as it comes, then usage on stderr
int Health(const std::string& server, const std::string& service);  // 1 when not serving
int Info(const std::string& server);
int Tokenize(const std::string& server, const std::string& text);
int Detokenize(const std::string& server, const std::vector<std::uint32_t>& ids);

}  // namespace k3::server::ctl
