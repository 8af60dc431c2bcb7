// What a random checkpoint's tensors hold. Every element is a function of (seed, tensor name,
// index) alone, so the bytes do not depend on threads, block sizes or the order of writing.
//
// The scales keep activations near one through all layers: norms are about 1, a projection's
// weights have a standard deviation of gain / sqrt(inputs), MXFP4 scales are chosen alike. Logits
// get a standard deviation of about 2.5, so greedy continuations wander.
//
// One residual channel, number 0, is a constant: the embedding writes kConstantChannel there and
// no sublayer writes to it. Head rows of ids that must not appear (control tokens other than the
// stops, ids without a tokenizer entry) read it with a large negative weight, which puts their
// logits some ten standard deviations below the others; a small row alone would leave them at
// zero, and thousands of ids at zero get sampled.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "runtime/config/model_config.h"
#include "runtime/weights/make/plan.h"

namespace k3::runtime {

// Ids as the embedded tokenizer has them, or as far as a foreign config tells.
struct FillContext {
  std::uint64_t seed;
  const ModelConfig* config;
};

// Writes elements [first, first + count) of the tensor as stored bytes.
using Filler = std::function<void(std::uint64_t first, std::uint64_t count, std::byte* out)>;

// `tensor` outlives the filler.
Filler MakeFiller(const FillContext& context, const PlannedTensor& tensor);

}  // namespace k3::runtime
