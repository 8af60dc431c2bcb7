// The part of the log probabilities that needs no vectors: compiled once, plain double arithmetic,
// so that every instruction set gets the same bits.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/sample/sample.h"

namespace k3::kernels {

// ln x for positive, normal, finite x, within 2 ulp: x = m 2^e with m in [sqrt(1/2), sqrt(2)], and
// ln m = 2 artanh((m - 1) / (m + 1)) by its series. libm's own differs between machines.
double NaturalLog(double x);

// The ids of the largest of `logits` [count] (no NaN among them), largest first, ties to the lowest
// id; -1 behind the last. A heap of the best so far: O(count log ids).
void Likeliest(const float* logits, std::int32_t count, std::span<std::int32_t> ids);

// Row n of logprobs and top_ids, the token being in `out` already. log_sum: ln of the sum of
// e^logit.
void WriteLogprobs(const SampleArgs& args, std::int64_t n, double log_sum);

// The same for a row whose raw logits have no softmax: NaN everywhere, no ids.
void WriteNoLogprobs(const SampleArgs& args, std::int64_t n);

}  // namespace k3::kernels
