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

using TimePoint = std::chrono::steady_clock::time_point;

struct LogitBias {
  Token id = 0;
  float bias = 0;
};

struct SamplingOptions {
  float temperature = 1;              // 0 = greedy; finite, >= 0
  float top_p = 1;                    // (0, 1]
  int top_k = 0;                      // 0: all
  float min_p = 0;                    // [0, 1]
  float presence_penalty = 0;         // finite
  float frequency_penalty = 0;        // finite
  float repetition_penalty = 1;       // finite, > 0; prompt tokens count too
  std::uint64_t seed = 0;             // with (choice, position) the whole source of chance
  std::uint32_t choice = 0;           // index among the n choices of one call
  std::vector<LogitBias> logit_bias;  // ids distinct
  std::vector<Token> allowed_ids;     // empty: all
  std::optional<int> logprobs;        // how many of the likeliest to tell beside the chosen one
};
inline constexpr int kMaxLogprobs = 20;

struct Request {
  std::string tenant = "default";
  std::vector<Token> prompt;  // at least one id, each below the vocabulary size
  SamplingOptions sampling;
  std::vector<Token> stop_ids;        // sorted; ends the sequence and is not part of the output
  std::vector<Token> eos_ids;         // sorted; like stop_ids, reported as kStopEos
  std::optional<int> max_new_tokens;  // unset: whatever is left of the context
  int min_new_tokens = 0;             // until then no stop or eos id is chosen
  bool ends_by_text = false;          // kStopString may come: its tokens count when it has ended
  int priority = 0;                   // the lower the sooner
  std::optional<TimePoint> deadline;  // ended with kDeadline from then on
  std::optional<TimePoint> queue_deadline;  // likewise, unless it was started before
};

enum class FinishReason : std::uint8_t {
  kStopEos,
  kStopToken,
  kStopString,  // the text side found it and said so
  kLengthMaxTokens,
  kLengthContext,
  kAborted,     // cancelled by the caller, or the engine stopped
  kDeadline,    // its own or the queue's
  kSlowClient,  // nobody took its tokens for too long
  kError,       // NaN logits: `error` says what
};
inline constexpr int kNumFinishReasons = 9;

// The chosen token's log probability and the likeliest tokens', by the model's own distribution.
struct TokenLogprob {
  Token id = 0;
  float logprob = 0;
};
struct Logprobs {
  float chosen = 0;
  std::vector<TokenLogprob> top;  // likeliest first
};

struct NewToken {
  Token id = 0;
  std::optional<Logprobs> logprobs;  // when asked for
};

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of the prompt, taken from the prefix cache
  int completion_tokens = 0;
};

struct Timings {     // seconds
  double queue = 0;  // submit to first admission
  double ttft = 0;   // submit to first token; 0 when there was none
  double last = 0;   // submit to last token, likewise
  double max_inter_token = 0;
  double total = 0;  // submit to finish
  int preemptions = 0;
  int recomputed_tokens = 0;  // after preemptions
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
