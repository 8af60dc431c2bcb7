// What the engine is asked for, and what it answers: numbers only, no text.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/types.h"

namespace k3::runtime {

using cache::Token;

// Unique within one engine; given by Engine::Submit.
enum class RequestId : std::uint64_t {};

struct SamplingOptions {
  float temperature = 1;     // 0 = greedy; finite, >= 0
  float top_p = 1;           // (0, 1]
  std::uint64_t seed = 0;    // with (choice, position) the whole source of chance
  std::uint32_t choice = 0;  // index among the n choices of one call
};

struct Request {
  std::string tenant = "default";
  std::vector<Token> prompt;  // at least one id, each below the vocabulary size
  SamplingOptions sampling;
  std::vector<Token> stop_ids;        // sorted; ends the sequence and is not part of the output
  std::vector<Token> eos_ids;         // sorted; like stop_ids, reported as kStopEos
  std::optional<int> max_new_tokens;  // unset: whatever is left of the context
};

enum class FinishReason : std::uint8_t {
  kStopEos,
  kStopToken,
  kLengthMaxTokens,
  kLengthContext,
  kAborted,  // cancelled by the caller, or the engine stopped
  kError,    // NaN logits: `error` says what
};
inline constexpr int kNumFinishReasons = 6;

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of the prompt, taken from the prefix cache
  int completion_tokens = 0;
};

struct Timings {     // seconds
  double queue = 0;  // submit to first admission
  double ttft = 0;   // submit to first token; 0 when there was none
  double total = 0;  // submit to finish
  int preemptions = 0;
};

struct Started {
  int prompt_tokens = 0;
  int cached_tokens = 0;
};

struct Finished {
  FinishReason reason = FinishReason::kAborted;
  std::optional<Token> stop_token;  // the id that ended it, for kStopEos and kStopToken
  Usage usage;
  Timings timings;
  std::string error;
};

}  // namespace k3::runtime
