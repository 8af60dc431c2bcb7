// What a sequence's own history does to its next choice: bias and penalties as edits of logits,
// stop ids that may not come yet, ids that may come at all.
//   1. A function of the request and of the tokens accepted so far; nothing else.
//   2. Accept is O(1); what a step needs is lent, not built.
#pragma once
#include <unordered_map>
#include <vector>

#include "runtime/schedule/plan.h"
#include "runtime/schedule/request.h"

namespace k3::runtime {

class SamplerState {
 public:
  SamplerState() = default;
  // Ids of the request are below `vocab_size`.
  SamplerState(const Request& request, int vocab_size);

  void Accept(Token token);  // a generated one

  // For choosing generated token number `num_generated` (from 0) of `request`, at `position`. Good
  // while neither this nor the request changes.
  SampleSpec Spec(const Request& request, int num_generated, int position) const;

 private:
  int EditOf(Token token);  // its index in edits_

  float presence_ = 0, frequency_ = 0, repetition_ = 1;
  std::vector<kernels::LogitEdit> edits_;
  std::vector<int> counts_;  // of edits_, among generated tokens
  std::unordered_map<Token, int> index_;
  std::vector<Token> banned_;        // before min_new_tokens
  std::vector<std::uint32_t> mask_;  // empty: all
};

}  // namespace k3::runtime
