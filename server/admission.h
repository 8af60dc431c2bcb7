// From what a client asks to what the engine runs: every field is checked here, for every surface.
//   1. All faults of one request are reported together; the reason is the first one's.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/api_error.h"
#include "server/served_model.h"

namespace k3::server {

inline constexpr std::size_t kMaxStopStrings = 16;
inline constexpr std::size_t kMaxStopBytes = 256;
inline constexpr float kMaxPenalty = 2;
inline constexpr float kMaxLogitBias = 100;

struct Ask {
  std::string model;  // empty: whatever is served
  std::string tenant = "default";
  std::optional<std::string> text;
  std::optional<std::vector<std::uint32_t>> token_ids;  // used when there is no text

  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int> top_k;
  std::optional<float> min_p;
  std::optional<float> presence_penalty, frequency_penalty, repetition_penalty;
  std::optional<std::uint64_t> seed;
  std::optional<std::uint32_t> n;
  std::vector<std::pair<std::uint32_t, float>> logit_bias;
  std::vector<std::uint32_t> allowed_token_ids;
  std::optional<std::uint32_t> logprobs;
  bool prompt_logprobs = false;

  std::optional<int> max_new_tokens;
  std::optional<int> min_new_tokens;
  std::vector<std::string> stop_strings;
  bool include_stop = false;
  std::vector<std::uint32_t> stop_token_ids;
  bool ignore_eos = false;

  int priority = 0;
  std::optional<std::chrono::milliseconds> queue_timeout;
  std::optional<runtime::TimePoint> deadline;
};

// What may be submitted.
struct Admitted {
  runtime::Request request;  // of choice 0
  int n = 1;
  std::vector<std::string> stop_strings;
  bool include_stop = false;
};

// Tokenizes, so it belongs on a text thread. `now`: when the request came.
ApiResult<Admitted> Admit(const ServedModel& model, const Ask& ask, runtime::TimePoint now);

std::optional<ApiError> CheckModelName(const ServedModel& model, const std::string& name);

// Nothing when every id is usable; else the first that is not, with its index.
std::optional<ApiError> CheckTokenIds(const ServedModel& model, const char* field,
                                      const std::vector<std::uint32_t>& ids);

std::optional<ApiError> CheckUtf8(const char* field, const std::string& text);

// The engine's refusal of a request that passed Admit.
ApiError FromEngine(const runtime::Refusal& refusal);

}  // namespace k3::server
