#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/ref_ops.h"
#include "kernels/sample/sample_draw.h"

namespace k3::kernels::ref {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

struct Candidate {
  double p;
  std::int32_t id;
};
using Candidates = std::vector<Candidate>;

// The edited logits; minus infinity where not allowed.
std::vector<double> Allowed(const SampleRow& row, const float* logits, std::int32_t count) {
  std::vector<double> left(logits, logits + count);
  for (const LogitEdit& edit : std::span(row.edits, static_cast<std::size_t>(row.num_edits))) {
    if (edit.id >= count) continue;
    double& logit = left[static_cast<std::size_t>(edit.id)];
    logit += edit.bias;
    logit = logit > 0 ? logit / edit.repetition : logit * edit.repetition;
    logit -= edit.minus;
  }
  for (std::int32_t id : std::span(row.banned, static_cast<std::size_t>(row.num_banned)))
    if (id < count) left[static_cast<std::size_t>(id)] = kNever;
  for (std::int32_t id = 0; id < count; ++id)
    if (!IsAllowed(row, id)) left[static_cast<std::size_t>(id)] = kNever;
  return left;
}

// Id of the largest, ties to the lowest; -1 when there is none or the row is damaged.
std::int32_t LargestOf(const std::vector<double>& logits) {
  std::int32_t largest = -1;
  double best = kNever;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (std::isnan(logits[id]) || logits[id] == -kNever) return -1;
    if (logits[id] > best) {
      best = logits[id];
      largest = static_cast<std::int32_t>(id);
    }
  }
  return largest;
}

// All that can be chosen, p descending, id ascending; p relative to the most likely.
Candidates Order(const std::vector<double>& logits, double largest, double temperature) {
  Candidates order;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] == kNever) continue;
    order.push_back({std::exp((logits[id] - largest) / temperature), static_cast<int>(id)});
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Candidate& a, const Candidate& b) { return a.p > b.p; });
  return order;
}

double Sum(const Candidates& candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.p;
  return sum;
}

// How many of the first candidates have a running sum that reaches `mass`.
std::size_t PrefixReaching(const Candidates& order, double mass) {
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    sum += order[i].p;
    if (sum >= mass) return i + 1;
  }
  return order.size();
}

std::int32_t Draw(const SampleRow& row, const Candidates& nucleus) {
  const double share = std::ldexp(static_cast<double>(RandomBits(row)), -64);
  const double target = share * Sum(nucleus);
  double sum = 0;
  for (const Candidate& candidate : nucleus) {
    sum += candidate.p;
    if (sum > target) return candidate.id;
  }
  return nucleus.back().id;
}

std::int32_t SampleToken(const SampleRow& row, const float* logits, std::int32_t count) {
  const std::vector<double> allowed = Allowed(row, logits, count);
  const std::int32_t largest = LargestOf(allowed);
  if (largest < 0 || row.temperature == 0) return largest;
  Candidates order = Order(allowed, allowed[static_cast<std::size_t>(largest)], row.temperature);
  std::erase_if(order, [&row](const Candidate& candidate) { return candidate.p < row.min_p; });
  const auto top_k = static_cast<std::size_t>(row.top_k);
  if (top_k > 0 && top_k < order.size()) order.resize(top_k);
  order.resize(PrefixReaching(order, Sum(order) * row.top_p));
  return Draw(row, order);
}

// NaN where a NaN or +inf leaves no softmax.
double LogSumOfExponentials(const std::vector<double>& logits) {
  const std::int32_t largest = LargestOf(logits);
  if (largest < 0) return std::numeric_limits<double>::quiet_NaN();
  const double shift = logits[static_cast<std::size_t>(largest)];
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - shift);
  return shift + std::log(sum);
}

void Logprobs(const SampleArgs& args, std::int64_t n) {
  const float* row = args.logits.Row<float>(n);
  const std::vector<double> logits(row, row + args.vocab_limit);
  const double log_sum = LogSumOfExponentials(logits);
  const auto logprob = [&](std::int32_t id) {
    if (id < 0) return static_cast<float>(kNever - log_sum);  // a NaN stays one
    return static_cast<float>(logits[static_cast<std::size_t>(id)] - log_sum);
  };
  std::vector<std::int32_t> order(std::isnan(log_sum) ? 0 : logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(args.logprobs.cols - 1), -1);
  args.logprobs.Row<float>(n)[0] = logprob(args.out.Row<std::int32_t>(0)[n]);
  for (std::size_t j = 0; j < order.size(); ++j) {
    args.top_ids.Row<std::int32_t>(n)[j] = order[j];
    args.logprobs.Row<float>(n)[1 + j] = logprob(order[j]);
  }
}

}  // namespace

void Sample(const SampleArgs& args) {
  K3_CHECK(args.vocab_limit <= args.logits.cols);
  for (std::int64_t n = 0; n < args.logits.rows; ++n) {
    args.out.Row<std::int32_t>(0)[n] =
        SampleToken(args.rows[n], args.logits.Row<float>(n), args.vocab_limit);
    if (!args.logprobs.empty()) Logprobs(args, n);
  }
}

}  // namespace k3::kernels::ref
