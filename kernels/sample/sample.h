// One token per row of logits. In this order, each step on what the one before left:
//   1. raw: log probabilities are the logits' own log-softmax over ids < vocab_limit, before all
//      below (masks included). NaN, and no top ids, where they hold a NaN or +inf: a mask may let
//      such a row live.
//   2. allowed: ids < vocab_limit whose mask bit is 1 and that are not banned.
//   3. edits: l += bias; then l = l > 0 ? l / repetition : l * repetition; then l -= minus.
//   4. temperature == 0: the largest logit, ties to the lowest id.
//   5. otherwise p = softmax(l / temperature); min_p drops ids with p < min_p * max p; top_k keeps
//      the first k of the order (p descending, id ascending); the nucleus is the shortest prefix of
//      what is left whose sum reaches top_p of it; a draw keyed by (seed, choice, position) picks
//      from it by inverse CDF in that order.
// The same key, options and logits give the same token, whatever else runs. A row whose allowed
// logits hold a NaN or +inf, or allow nothing, answers -1: such a row must fail its request, never
// become text. Its log probabilities are unspecified.
#pragma once
#include "kernels/base/tensor.h"

namespace k3::kernels {

// What bias and penalties do to one token's logit. All finite, repetition > 0.
struct LogitEdit {
  std::int32_t id = 0;  // < the number of logits
  float bias = 0;
  float repetition = 1;
  float minus = 0;  // presence + frequency * count
};

struct SampleRow {
  float temperature = 0;
  float top_p = 1;  // (0, 1]
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;             // index among the n choices of a request
  std::uint32_t position = 0;           // position of the token being chosen
  const std::uint32_t* mask = nullptr;  // [ceil(V / 32)] bit 1 = allowed; null = all
  float min_p = 0;                      // [0, 1]
  int top_k = 0;                        // 0: all
  const LogitEdit* edits = nullptr;     // [num_edits], ids distinct, any order
  int num_edits = 0;
  const std::int32_t* banned = nullptr;  // [num_banned]
  int num_banned = 0;
};

struct SampleArgs {
  ConstTensor logits;               // F32 [N, V]
  const SampleRow* rows = nullptr;  // [N]
  int vocab_limit = 0;              // ids the tokenizer knows
  Tensor out;                       // I32 [1, N]
  // Empty when nobody asks. Column 0 is the chosen token's, 1 + j the j-th likeliest's (ties to the
  // lowest id); where fewer than K ids exist, id -1 and minus infinity.
  Tensor logprobs;  // F32 [N, 1 + K]
  Tensor top_ids;   // I32 [N, K]; K may be 0
};

}  // namespace k3::kernels
