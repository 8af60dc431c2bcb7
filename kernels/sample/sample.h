// One token per row of logits.
//   temperature == 0: the largest logit, ties to the lowest id.
//   otherwise p = softmax(logits / temperature); the nucleus is the shortest prefix of the order
//   (p descending, id ascending) whose sum reaches top_p; a draw keyed by (seed, choice, position)
//   picks from it by inverse CDF in that order. The same key and logits give the same token,
//   whatever else runs.
// Ids >= vocab_limit and ids whose mask bit is 0 are never chosen. A row whose allowed logits hold
// a NaN or +inf, or allow nothing, answers -1: such a row must fail its request, never become text.
#pragma once
#include "kernels/base/tensor.h"

namespace k3::kernels {

struct SampleRow {
  float temperature = 0;
  float top_p = 1;  // (0, 1]
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;             // index among the n choices of a request
  std::uint32_t position = 0;           // position of the token being chosen
  const std::uint32_t* mask = nullptr;  // [ceil(V / 32)] bit 1 = allowed; null = all
};

struct SampleArgs {
  ConstTensor logits;               // F32 [N, V]
  const SampleRow* rows = nullptr;  // [N]
  int vocab_limit = 0;              // ids the tokenizer knows
  Tensor out;                       // I32 [1, N]
};

}  // namespace k3::kernels
