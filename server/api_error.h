// A refusal a client sees: what kind, by which name, in which words.
//   1. `reason` is part of the API: clients switch on it. Names are added, never changed.
#pragma once
#include <optional>
#include <string>
#include <variant>

#include "kernels/base/result.h"

namespace k3::server {

namespace reason {
inline constexpr const char* kEmptyPrompt = "EMPTY_PROMPT";
inline constexpr const char* kInvalidUtf8 = "INVALID_UTF8";
inline constexpr const char* kMalformedMessage = "MALFORMED_MESSAGE";
inline constexpr const char* kInvalidRequestId = "INVALID_REQUEST_ID";
inline constexpr const char* kTokenIdOutOfRange = "TOKEN_ID_OUT_OF_RANGE";
inline constexpr const char* kContextLengthExceeded = "CONTEXT_LENGTH_EXCEEDED";
inline constexpr const char* kInvalidTemperature = "INVALID_TEMPERATURE";
inline constexpr const char* kInvalidTopP = "INVALID_TOP_P";
inline constexpr const char* kInvalidTopK = "INVALID_TOP_K";
inline constexpr const char* kInvalidMinP = "INVALID_MIN_P";
inline constexpr const char* kInvalidPenalty = "INVALID_PENALTY";
inline constexpr const char* kInvalidLogitBias = "INVALID_LOGIT_BIAS";
inline constexpr const char* kInvalidLogprobs = "INVALID_LOGPROBS";
inline constexpr const char* kInvalidN = "INVALID_N";
inline constexpr const char* kTooManyChoices = "TOO_MANY_CHOICES";
inline constexpr const char* kInvalidMaxNewTokens = "INVALID_MAX_NEW_TOKENS";
inline constexpr const char* kInvalidMinNewTokens = "INVALID_MIN_NEW_TOKENS";
inline constexpr const char* kInvalidStop = "INVALID_STOP";
inline constexpr const char* kPromptLogprobs = "PROMPT_LOGPROBS_NOT_BUILT";
inline constexpr const char* kModelNotFound = "MODEL_NOT_FOUND";
inline constexpr const char* kQueueFull = "QUEUE_FULL";
inline constexpr const char* kQueueTokensFull = "QUEUE_TOKENS_FULL";
inline constexpr const char* kQueueTimeout = "QUEUE_TIMEOUT";
inline constexpr const char* kDeadline = "DEADLINE_EXCEEDED";
inline constexpr const char* kSlowClient = "SLOW_CLIENT";
inline constexpr const char* kAborted = "ABORTED";
inline constexpr const char* kLoading = "LOADING";
inline constexpr const char* kDraining = "DRAINING";
inline constexpr const char* kLoadFailed = "LOAD_FAILED";
inline constexpr const char* kRefused = "REFUSED_BY_ENGINE";
inline constexpr const char* kEngineError = "ENGINE_ERROR";
}  // namespace reason

struct ApiError {
  Code code = Code::kInternal;
  std::string reason;
  std::string message;
  std::optional<int> retry_after_ms;  // when trying again may help
};

template <typename T>
using ApiResult = std::variant<T, ApiError>;

}  // namespace k3::server
