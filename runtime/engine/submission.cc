#include "runtime/engine/submission.h"

#include <algorithm>
#include <cmath>

namespace k3::runtime {
namespace {

// Gathers the first fault of a list of checks.
class Door {
 public:
  explicit Door(int vocab_size) : vocab_size_(vocab_size) {}

  void Require(bool holds, const char* what, double value, const char* expected) {
    if (holds || fault_) return;
    Refuse(std::string(what) + " is " + std::to_string(value) + "; it must be " + expected);
  }
  void RequireId(const char* what, Token id) {
    if ((id >= 0 && id < vocab_size_) || fault_) return;
    Refuse(std::string(what) + " " + std::to_string(id) + " is no id; they go from 0 to " +
           std::to_string(vocab_size_ - 1));
  }
  void Refuse(std::string message) {
    fault_ = Refusal{Refusal::Why::kInvalid, std::move(message), {}};
  }
  const std::optional<Refusal>& fault() const { return fault_; }

 private:
  int vocab_size_;
  std::optional<Refusal> fault_;
};

void CheckSampling(const SamplingOptions& sampling, Door& door) {
  const auto finite = [](float value) { return std::isfinite(value); };
  door.Require(finite(sampling.temperature) && sampling.temperature >= 0, "temperature",
               sampling.temperature, "a finite number >= 0");
  door.Require(sampling.top_p > 0 && sampling.top_p <= 1, "top_p", sampling.top_p, "in (0, 1]");
  door.Require(sampling.top_k >= 0, "top_k", sampling.top_k, ">= 0");
  door.Require(sampling.min_p >= 0 && sampling.min_p <= 1, "min_p", sampling.min_p, "in [0, 1]");
  door.Require(finite(sampling.presence_penalty), "presence_penalty", sampling.presence_penalty,
               "finite");
  door.Require(finite(sampling.frequency_penalty), "frequency_penalty", sampling.frequency_penalty,
               "finite");
  door.Require(finite(sampling.repetition_penalty) && sampling.repetition_penalty > 0,
               "repetition_penalty", sampling.repetition_penalty, "a finite number > 0");
  const int logprobs = sampling.logprobs.value_or(0);
  door.Require(logprobs >= 0 && logprobs <= kMaxLogprobs, "logprobs", logprobs, "in [0, 20]");
  for (const LogitBias& bias : sampling.logit_bias) {
    door.RequireId("logit_bias token", bias.id);
    door.Require(finite(bias.bias), "logit_bias", bias.bias, "finite");
  }
  for (const Token id : sampling.allowed_ids) door.RequireId("allowed token", id);
}

}  // namespace

std::optional<Refusal> FindFault(const Request& request, int choices,
                                 const SchedulerLimits& limits) {
  Door door(limits.vocab_size);
  if (request.prompt.empty()) door.Refuse("the prompt is empty; at least one token is needed");
  for (const Token id : request.prompt) door.RequireId("prompt token", id);
  const auto prompt = static_cast<int>(request.prompt.size());
  const int longest = limits.max_model_len - 1;
  if (prompt > longest) {
    door.Refuse("the prompt has " + std::to_string(prompt) + " tokens; at most " +
                std::to_string(longest) + " fit, since max_model_len is " +
                std::to_string(longest + 1) + " and at least one token is generated");
  }
  CheckSampling(request.sampling, door);
  door.Require(request.max_new_tokens.value_or(1) >= 1, "max_new_tokens",
               request.max_new_tokens.value_or(1), "at least 1");
  door.Require(request.min_new_tokens >= 0, "min_new_tokens", request.min_new_tokens, ">= 0");
  door.Require(choices >= 1, "n", choices, "at least 1");
  if (door.fault()) return door.fault();
  const int most = MaxChoices(limits, prompt);
  if (choices <= std::max(most, 1)) return std::nullopt;
  return Refusal{Refusal::Why::kTooManyChoices,
                 "n is " + std::to_string(choices) + "; at most " + std::to_string(most) +
                     " choices of a prompt of " + std::to_string(prompt) +
                     " tokens can live at once here",
                 {}};
}

}  // namespace k3::runtime
