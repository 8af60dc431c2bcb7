#include "runtime/schedule/sampler_state.h"

#include "kernels/base/check.h"

namespace k3::runtime {

SamplerState::SamplerState(const Request& request, int vocab_size)
    : presence_(request.sampling.presence_penalty),
      frequency_(request.sampling.frequency_penalty),
      repetition_(request.sampling.repetition_penalty) {
  for (const LogitBias& bias : request.sampling.logit_bias) {
    edits_[static_cast<std::size_t>(EditOf(bias.id))].bias = bias.bias;
  }
  if (repetition_ != 1) {
    for (const Token token : request.prompt) {
      edits_[static_cast<std::size_t>(EditOf(token))].repetition = repetition_;
    }
  }
  if (request.min_new_tokens > 0) {
    banned_ = request.eos_ids;
    banned_.insert(banned_.end(), request.stop_ids.begin(), request.stop_ids.end());
  }
  if (request.sampling.allowed_ids.empty()) return;
  mask_.resize(static_cast<std::size_t>((vocab_size + 31) / 32));
  for (const Token token : request.sampling.allowed_ids) {
    K3_CHECK(token >= 0);
    K3_CHECK(token < vocab_size);
    mask_[static_cast<std::size_t>(token / 32)] |= 1U << (static_cast<unsigned>(token) % 32U);
  }
}

int SamplerState::EditOf(Token token) {
  const auto [it, added] = index_.try_emplace(token, static_cast<int>(edits_.size()));
  if (added) {
    edits_.push_back({.id = token});
    counts_.push_back(0);
  }
  return it->second;
}

void SamplerState::Accept(Token token) {
  if (presence_ == 0 && frequency_ == 0 && repetition_ == 1) return;
  const auto index = static_cast<std::size_t>(EditOf(token));
  const int count = ++counts_[index];
  edits_[index].repetition = repetition_;
  edits_[index].minus = presence_ + frequency_ * static_cast<float>(count);
}

SampleSpec SamplerState::Spec(const Request& request, int num_generated, int position) const {
  SampleSpec spec{.options = &request.sampling, .position = position, .edits = edits_};
  if (num_generated < request.min_new_tokens) spec.banned = banned_;
  spec.mask = mask_;
  return spec;
}

}  // namespace k3::runtime
