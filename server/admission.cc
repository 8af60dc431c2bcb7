#include "server/admission.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <random>

#include "runtime/text/utf8.h"

namespace k3::server {
namespace {

constexpr int kQueueFullRetryMs = 1000;

class Faults {
 public:
  void Add(const char* why, std::string message) {
    if (messages_.empty()) reason_ = why;
    messages_.push_back(std::move(message));
  }
  void Add(const std::optional<ApiError>& error) {
    if (error) Add(error->reason.c_str(), error->message);
  }
  bool empty() const { return messages_.empty(); }
  ApiError ToError() const {
    return {Code::kInvalidArgument, reason_, fmt::format("{}", fmt::join(messages_, "; ")), {}};
  }

 private:
  std::string reason_;
  std::vector<std::string> messages_;
};

ApiError Invalid(const char* why, std::string message) {
  return {Code::kInvalidArgument, why, std::move(message), {}};
}

void CheckSampling(const Ask& ask, Faults& faults) {
  if (ask.temperature && !(std::isfinite(*ask.temperature) && *ask.temperature >= 0)) {
    faults.Add(reason::kInvalidTemperature,
               fmt::format("temperature: {}; expected a finite number >= 0", *ask.temperature));
  }
  if (ask.top_p && !(*ask.top_p > 0 && *ask.top_p <= 1)) {
    faults.Add(reason::kInvalidTopP,
               fmt::format("top_p: {}; expected more than 0 and at most 1", *ask.top_p));
  }
  if (ask.max_new_tokens && *ask.max_new_tokens < 1) {
    faults.Add(reason::kInvalidMaxNewTokens,
               fmt::format("max_new_tokens: {}; expected at least 1", *ask.max_new_tokens));
  }
}

std::vector<runtime::Token> ToTokens(const std::vector<std::uint32_t>& ids) {
  return {ids.begin(), ids.end()};
}

std::vector<runtime::Token> PromptOf(const ServedModel& model, const Ask& ask, Faults& faults) {
  std::vector<runtime::Token> prompt;
  if (ask.text) {
    const auto broken = CheckUtf8("text", *ask.text);
    faults.Add(broken);
    if (broken) return prompt;
    prompt = model.tokenizer.Encode(*ask.text);
  } else if (ask.token_ids) {
    const auto outside = CheckTokenIds(model, "token_ids", *ask.token_ids);
    faults.Add(outside);
    if (outside) return prompt;
    prompt = ToTokens(*ask.token_ids);
  }
  if (prompt.empty()) {
    faults.Add(reason::kEmptyPrompt, "prompt: empty; expected text or at least one token id");
  }
  return prompt;
}

// Prompt and output share the context; one place is always the output's.
void CheckLength(const ServedModel& model, const Ask& ask, std::size_t prompt_tokens,
                 Faults& faults) {
  const std::int64_t limit = model.engine->info().max_model_len;
  const auto prompt = static_cast<std::int64_t>(prompt_tokens);
  if (prompt > limit - 1) {
    faults.Add(reason::kContextLengthExceeded,
               fmt::format("the maximum context length is {} tokens, of which the prompt may take "
                           "{}; this prompt has {}",
                           limit, limit - 1, prompt));
  } else if (ask.max_new_tokens.value_or(1) > limit - prompt) {
    faults.Add(reason::kContextLengthExceeded,
               fmt::format("the maximum context length is {} tokens; requested {}: {} in the "
                           "prompt and {} to generate",
                           limit, prompt + *ask.max_new_tokens, prompt, *ask.max_new_tokens));
  }
}

std::uint64_t FreshSeed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace

std::optional<ApiError> CheckModelName(const ServedModel& model, const std::string& name) {
  if (name.empty() || model.HasName(name)) return std::nullopt;
  return ApiError{Code::kNotFound,
                  reason::kModelNotFound,
                  fmt::format("model '{}' is not served here; served: {}", name,
                              fmt::join(model.facts.names, ", ")),
                  {}};
}

std::optional<ApiError> CheckTokenIds(const ServedModel& model, const char* field,
                                      const std::vector<std::uint32_t>& ids) {
  const auto limit = static_cast<std::uint32_t>(model.num_usable_ids());
  const auto outside = std::find_if(ids.begin(), ids.end(), [&](auto id) { return id >= limit; });
  if (outside == ids.end()) return std::nullopt;
  return Invalid(reason::kTokenIdOutOfRange, fmt::format("{}[{}]: {}; expected less than {}", field,
                                                         outside - ids.begin(), *outside, limit));
}

std::optional<ApiError> CheckUtf8(const char* field, const std::string& text) {
  const std::optional<std::size_t> offset = runtime::FirstIllFormed(text);
  if (!offset) return std::nullopt;
  return Invalid(reason::kInvalidUtf8, fmt::format("{}: not UTF-8 at byte {}", field, *offset));
}

ApiError FromEngine(const Error& error) {
  switch (error.code) {
    case Code::kResourceExhausted:
      return {error.code, reason::kQueueFull, error.message, kQueueFullRetryMs};
    case Code::kUnavailable:
      return {error.code, reason::kDraining, error.message, kQueueFullRetryMs};
    default:
      return {error.code, reason::kRefused, error.message, {}};
  }
}

ApiResult<runtime::Request> Admit(const ServedModel& model, const Ask& ask) {
  if (const auto unknown = CheckModelName(model, ask.model)) return *unknown;
  Faults faults;
  CheckSampling(ask, faults);
  faults.Add(CheckTokenIds(model, "stop_token_ids", ask.stop_token_ids));
  runtime::Request request;
  request.prompt = PromptOf(model, ask, faults);
  if (!request.prompt.empty()) CheckLength(model, ask, request.prompt.size(), faults);
  if (!faults.empty()) return faults.ToError();

  request.sampling.temperature = ask.temperature.value_or(1.0F);
  request.sampling.top_p = ask.top_p.value_or(1.0F);
  request.sampling.seed = ask.seed ? *ask.seed : FreshSeed();
  request.stop_ids = ToTokens(ask.stop_token_ids);
  std::sort(request.stop_ids.begin(), request.stop_ids.end());
  if (!ask.ignore_eos) request.eos_ids = model.facts.eos_ids;
  request.max_new_tokens = ask.max_new_tokens;
  return request;
}

}  // namespace k3::server
