#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref_ops.h"
#include "kernels/sample/sample_draw.h"

namespace k3::kernels::ref {
namespace {

struct Candidate {
  double p;
  std::int32_t id;
};

// All allowed tokens, p descending, id ascending; p relative to the most likely.
std::vector<Candidate> Order(const SampleRow& row, const float* logits, std::int32_t count,
                             float largest) {
  std::vector<Candidate> order;
  for (std::int32_t id = 0; id < count; ++id) {
    if (!IsAllowed(row, id)) continue;
    const double distance = static_cast<double>(logits[id]) - largest;
    order.push_back({std::exp(distance / row.temperature), id});
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Candidate& a, const Candidate& b) { return a.p > b.p; });
  return order;
}

// How many of the first candidates have a running sum that reaches `mass`.
std::size_t PrefixReaching(const std::vector<Candidate>& order, double mass) {
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    sum += order[i].p;
    if (sum >= mass) return i + 1;
  }
  return order.size();
}

std::int32_t SampleToken(const SampleRow& row, const float* logits, std::int32_t count) {
  const Largest largest = FindLargest(row, logits, count);
  if (largest.id < 0 || row.temperature == 0) return largest.id;
  std::vector<Candidate> order = Order(row, logits, count, largest.logit);
  double total = 0;
  for (const Candidate& candidate : order) total += candidate.p;
  order.resize(PrefixReaching(order, total * row.top_p));
  double nucleus = 0;
  for (const Candidate& candidate : order) nucleus += candidate.p;
  const double share = std::ldexp(static_cast<double>(RandomBits(row)), -64);
  double sum = 0;
  for (const Candidate& candidate : order) {
    sum += candidate.p;
    if (sum > share * nucleus) return candidate.id;
  }
  return order.back().id;
}

}  // namespace

void Sample(const SampleArgs& args) {
  K3_CHECK(args.vocab_limit <= args.logits.cols);
  for (std::int64_t n = 0; n < args.logits.rows; ++n) {
    args.out.Row<std::int32_t>(0)[n] =
        SampleToken(args.rows[n], args.logits.Row<float>(n), args.vocab_limit);
  }
}

}  // namespace k3::kernels::ref
