// From what a client asks to what the engine runs: every field is checked here, for every surface.
//   1. All faults of one request are reported together; the reason is the first one's.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/served_model.h"

namespace k3::server {

struct Ask {
  std::string model;  // empty: whatever is served
  std::optional<std::string> text;
  std::optional<std::vector<std::uint32_t>> token_ids;  // used when there is no text
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<std::uint64_t> seed;
  std::optional<int> max_new_tokens;
  std::vector<std::uint32_t> stop_token_ids;
  bool ignore_eos = false;
};

// Tokenizes, so it belongs on a text thread.
ApiResult<runtime::Request> Admit(const ServedModel& model, const Ask& ask);

std::optional<ApiError> CheckModelName(const ServedModel& model, const std::string& name);

// Nothing when every id is usable; else the first that is not, with its index.
std::optional<ApiError> CheckTokenIds(const ServedModel& model, const char* field,
                                      const std::vector<std::uint32_t>& ids);

std::optional<ApiError> CheckUtf8(const char* field, const std::string& text);

// The engine's refusal of a request that passed Admit.
ApiError FromEngine(const Error& error);

}  // namespace k3::server
