// What the sampler's tests share: every implementation under its name, and one call of it.
#pragma once
#include <string>
#include <vector>

#include "kernels/ref_ops.h"
#include "kernels/testing/buffer.h"
#include "kernels/testing/cpu_sets.h"

namespace k3::kernels {

using Tokens = std::vector<std::int32_t>;

inline auto CpuSampler(const CpuOps& ops, int threads = 1) {
  return [&ops, threads](const SampleArgs& args) { RunCpu(ops.sample, args, threads); };
}
inline void RefSampler(const SampleArgs& args) {
  ref::Sample(args);
}

// check(op, name) for the reference and every CPU set.
template <typename Check>
void ForEachSampler(const Check& check) {
  check(RefSampler, "ref");
  for (const CpuOps* ops : AllCpuSets()) check(CpuSampler(*ops), ops->isa);
}

template <typename Op>
Tokens Sampled(const Matrix<float>& logits, const std::vector<SampleRow>& rows, int limit,
               const Op& op) {
  Matrix<std::int32_t> out(1, logits.rows());
  op(SampleArgs{logits.view(), rows.data(), limit, out.view()});
  return {out.span().begin(), out.span().end()};
}

// The same with log probabilities of the chosen and the `top` likeliest.
struct Answer {
  Answer(std::int64_t rows, int top) : tokens(1, rows), logprobs(rows, 1 + top), ids(rows, top) {}
  Matrix<std::int32_t> tokens;
  Matrix<float> logprobs;
  Matrix<std::int32_t> ids;
};
struct Asked {
  int limit;
  int top;
};
template <typename Op>
Answer SampledWithLogprobs(const Matrix<float>& logits, const std::vector<SampleRow>& rows,
                           const Asked& asked, const Op& op) {
  Answer answer(logits.rows(), asked.top);
  op(SampleArgs{logits.view(), rows.data(), asked.limit, answer.tokens.view(),
                answer.logprobs.view(), asked.top == 0 ? Tensor{} : answer.ids.view()});
  return answer;
}

}  // namespace k3::kernels
