#include "kernels/sample/sample_logprobs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace k3::kernels {
namespace {

constexpr double kLn2 = 0.693147180559945309417;
constexpr double kSqrt2 = 1.41421356237309504880;
constexpr int kMantissaBits = 52;
constexpr int kExponentBias = 1023;

// artanh(z) / z for z^2 <= 0.0295, as the series of z^2: the first term left out is below 2^-60.
double ArtanhOverArgument(double square) {
  constexpr int kTerms = 11;
  double sum = 0;
  for (int term = kTerms - 1; term >= 0; --term) sum = sum * square + 1.0 / (2 * term + 1);
  return sum;
}

std::span<std::int32_t> TopIds(const SampleArgs& args, std::int64_t n) {
  if (args.logprobs.cols == 1) return {};
  K3_CHECK(args.top_ids.cols == args.logprobs.cols - 1);
  return {args.top_ids.Row<std::int32_t>(n), static_cast<std::size_t>(args.top_ids.cols)};
}

}  // namespace

double NaturalLog(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << kMantissaBits) - 1;
  constexpr std::uint64_t kExponentOfOne = std::uint64_t{kExponentBias} << kMantissaBits;
  auto mantissa = std::bit_cast<double>((bits & kMantissa) | kExponentOfOne);
  int exponent = static_cast<int>(bits >> kMantissaBits) - kExponentBias;
  if (mantissa > kSqrt2) {
    mantissa /= 2;
    ++exponent;
  }
  const double z = (mantissa - 1) / (mantissa + 1);
  return exponent * kLn2 + 2 * z * ArtanhOverArgument(z * z);
}

void Likeliest(const float* logits, std::int32_t count, std::span<std::int32_t> ids) {
  const auto before = [logits](std::int32_t a, std::int32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  const auto size = std::min(count, static_cast<std::int32_t>(ids.size()));
  const std::span<std::int32_t> best = ids.first(static_cast<std::size_t>(size));
  for (std::int32_t id = 0; id < size; ++id) best[static_cast<std::size_t>(id)] = id;
  std::fill(ids.begin() + size, ids.end(), -1);
  if (size == 0) return;
  std::make_heap(best.begin(), best.end(), before);  // the worst in front
  for (std::int32_t id = size; id < count; ++id) {
    // Ids ascend, so that one which is only equal comes too late.
    if (!(logits[id] > logits[best.front()])) continue;
    std::pop_heap(best.begin(), best.end(), before);
    best.back() = id;
    std::push_heap(best.begin(), best.end(), before);
  }
  std::sort_heap(best.begin(), best.end(), before);
}

void WriteLogprobs(const SampleArgs& args, std::int64_t n, double log_sum) {
  const float* logits = args.logits.Row<float>(n);
  const std::span<std::int32_t> ids = TopIds(args, n);
  Likeliest(logits, args.vocab_limit, ids);
  float* logprobs = args.logprobs.Row<float>(n);
  const auto logprob = [&](std::int32_t id) {
    return id < 0 ? -INFINITY : static_cast<float>(static_cast<double>(logits[id]) - log_sum);
  };
  logprobs[0] = logprob(args.out.Row<std::int32_t>(0)[n]);
  for (std::size_t j = 0; j < ids.size(); ++j) logprobs[1 + j] = logprob(ids[j]);
}

void WriteNoLogprobs(const SampleArgs& args, std::int64_t n) {
  const std::span<std::int32_t> ids = TopIds(args, n);
  std::fill(ids.begin(), ids.end(), -1);
  std::fill_n(args.logprobs.Row<float>(n), args.logprobs.cols,
              std::numeric_limits<float>::quiet_NaN());
}

}  // namespace k3::kernels
