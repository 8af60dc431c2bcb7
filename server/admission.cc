#include "server/admission.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <random>

#include "runtime/text/utf8.h"

namespace k3::server {
namespace {

constexpr int kDrainingRetryMs = 1000;

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

bool InRange(float value, float least, float most) {
  return value >= least && value <= most;  // NaN is in no range
}

void CheckDistribution(const Ask& ask, Faults& faults) {
  if (ask.temperature && !(std::isfinite(*ask.temperature) && *ask.temperature >= 0)) {
    faults.Add(reason::kInvalidTemperature,
               fmt::format("temperature: {}; expected a finite number >= 0", *ask.temperature));
  }
  if (ask.top_p && !(*ask.top_p > 0 && *ask.top_p <= 1)) {
    faults.Add(reason::kInvalidTopP,
               fmt::format("top_p: {}; expected more than 0 and at most 1", *ask.top_p));
  }
  if (ask.top_k && *ask.top_k < 0) {
    faults.Add(reason::kInvalidTopK,
               fmt::format("top_k: {}; expected at least 1, or 0 for all", *ask.top_k));
  }
  if (ask.min_p && !InRange(*ask.min_p, 0, 1)) {
    faults.Add(reason::kInvalidMinP, fmt::format("min_p: {}; expected 0 to 1", *ask.min_p));
  }
}

void CheckPenalties(const Ask& ask, Faults& faults) {
  const auto additive = [&](const char* name, std::optional<float> value) {
    if (!value || InRange(*value, -kMaxPenalty, kMaxPenalty)) return;
    faults.Add(reason::kInvalidPenalty,
               fmt::format("{}: {}; expected {} to {}", name, *value, -kMaxPenalty, kMaxPenalty));
  };
  additive("presence_penalty", ask.presence_penalty);
  additive("frequency_penalty", ask.frequency_penalty);
  const float repetition = ask.repetition_penalty.value_or(1);
  if (!(std::isfinite(repetition) && repetition > 0)) {
    faults.Add(reason::kInvalidPenalty,
               fmt::format("repetition_penalty: {}; expected a finite number > 0", repetition));
  }
  for (const auto& [id, bias] : ask.logit_bias) {
    if (InRange(bias, -kMaxLogitBias, kMaxLogitBias)) continue;
    faults.Add(reason::kInvalidLogitBias, fmt::format("logit_bias[{}]: {}; expected {} to {}", id,
                                                      bias, -kMaxLogitBias, kMaxLogitBias));
  }
}

void CheckCounts(const Ask& ask, std::uint32_t most_choices, Faults& faults) {
  if (ask.n && *ask.n < 1) faults.Add(reason::kInvalidN, "n: 0; expected at least 1");
  if (ask.n && *ask.n > most_choices) {
    faults.Add(reason::kTooManyChoices,
               fmt::format("n: {}; at most {} requests run at once here", *ask.n, most_choices));
  }
  if (ask.logprobs.value_or(0) > static_cast<std::uint32_t>(runtime::kMaxLogprobs)) {
    faults.Add(reason::kInvalidLogprobs, fmt::format("logprobs: {}; expected at most {}",
                                                     *ask.logprobs, runtime::kMaxLogprobs));
  }
  if (ask.max_new_tokens && *ask.max_new_tokens < 1) {
    faults.Add(reason::kInvalidMaxNewTokens,
               fmt::format("max_new_tokens: {}; expected at least 1", *ask.max_new_tokens));
  }
  const int least = ask.min_new_tokens.value_or(0);
  if (least < 0 || (ask.max_new_tokens && least > *ask.max_new_tokens)) {
    faults.Add(
        reason::kInvalidMinNewTokens,
        fmt::format("min_new_tokens: {}; expected at least 0 and at most max_new_tokens", least));
  }
}

void CheckStop(const Ask& ask, Faults& faults) {
  if (ask.stop_strings.size() > kMaxStopStrings) {
    faults.Add(reason::kInvalidStop, fmt::format("stop_strings: {} of them; expected at most {}",
                                                 ask.stop_strings.size(), kMaxStopStrings));
  }
  for (std::size_t i = 0; i < ask.stop_strings.size(); ++i) {
    const std::string& text = ask.stop_strings[i];
    if (text.empty() || text.size() > kMaxStopBytes) {
      faults.Add(reason::kInvalidStop, fmt::format("stop_strings[{}]: {} bytes; expected 1 to {}",
                                                   i, text.size(), kMaxStopBytes));
    }
    faults.Add(CheckUtf8("stop_strings", text));
  }
}

std::vector<std::uint32_t> BiasedIds(const Ask& ask) {
  std::vector<std::uint32_t> ids;
  for (const auto& [id, bias] : ask.logit_bias) ids.push_back(id);
  return ids;
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

void FillSampling(const Ask& ask, runtime::SamplingOptions& out) {
  out.temperature = ask.temperature.value_or(1.0F);
  out.top_p = ask.top_p.value_or(1.0F);
  out.top_k = ask.top_k.value_or(0);
  out.min_p = ask.min_p.value_or(0);
  out.presence_penalty = ask.presence_penalty.value_or(0);
  out.frequency_penalty = ask.frequency_penalty.value_or(0);
  out.repetition_penalty = ask.repetition_penalty.value_or(1);
  out.seed = ask.seed ? *ask.seed : FreshSeed();
  for (const auto& [id, bias] : ask.logit_bias) {
    out.logit_bias.push_back({static_cast<runtime::Token>(id), bias});
  }
  out.allowed_ids = ToTokens(ask.allowed_token_ids);
  if (ask.logprobs) out.logprobs = static_cast<int>(*ask.logprobs);
}

void FillLimits(const ServedModel& model, const Ask& ask, runtime::TimePoint now,
                runtime::Request& out) {
  out.tenant = ask.tenant;
  out.stop_ids = ToTokens(ask.stop_token_ids);
  std::sort(out.stop_ids.begin(), out.stop_ids.end());
  if (!ask.ignore_eos) out.eos_ids = model.facts.eos_ids;
  out.max_new_tokens = ask.max_new_tokens;
  out.min_new_tokens = ask.min_new_tokens.value_or(0);
  out.ends_by_text = !ask.stop_strings.empty();
  out.priority = ask.priority;
  out.deadline = ask.deadline;
  if (ask.queue_timeout) out.queue_deadline = now + *ask.queue_timeout;
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

ApiResult<Admitted> Admit(const ServedModel& model, const Ask& ask, runtime::TimePoint now) {
  if (const auto unknown = CheckModelName(model, ask.model)) return *unknown;
  if (ask.prompt_logprobs) {
    return ApiError{Code::kUnimplemented,
                    reason::kPromptLogprobs,
                    "prompt_logprobs: not built; leave it unset",
                    {}};
  }
  Faults faults;
  CheckDistribution(ask, faults);
  CheckPenalties(ask, faults);
  CheckCounts(ask, static_cast<std::uint32_t>(model.engine->info().max_num_seqs), faults);
  CheckStop(ask, faults);
  faults.Add(CheckTokenIds(model, "stop_token_ids", ask.stop_token_ids));
  faults.Add(CheckTokenIds(model, "allowed_token_ids", ask.allowed_token_ids));
  faults.Add(CheckTokenIds(model, "logit_bias", BiasedIds(ask)));
  Admitted admitted{.request = {}, .n = static_cast<int>(ask.n.value_or(1))};
  runtime::Request& request = admitted.request;
  request.prompt = PromptOf(model, ask, faults);
  if (!request.prompt.empty()) CheckLength(model, ask, request.prompt.size(), faults);
  if (!faults.empty()) return faults.ToError();
  FillSampling(ask, request.sampling);
  FillLimits(model, ask, now, request);
  admitted.stop_strings = ask.stop_strings;
  admitted.include_stop = ask.include_stop;
  return admitted;
}

ApiError FromEngine(const runtime::Refusal& refusal) {
  using enum runtime::Refusal::Why;
  switch (refusal.why) {
    case kQueueFull:
      return {Code::kResourceExhausted, reason::kQueueFull, refusal.message,
              refusal.retry_after_ms};
    case kTokensFull:
      return {Code::kResourceExhausted, reason::kQueueTokensFull, refusal.message,
              refusal.retry_after_ms};
    case kStopping:
      return {Code::kUnavailable, reason::kDraining, refusal.message, kDrainingRetryMs};
    case kTooManyChoices:
      return {Code::kInvalidArgument, reason::kTooManyChoices, refusal.message, {}};
    case kInvalid:
      break;
  }
  return {Code::kInvalidArgument, reason::kRefused, refusal.message, {}};
}

}  // namespace k3::server
