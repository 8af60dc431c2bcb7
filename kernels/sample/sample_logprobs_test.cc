#include "kernels/sample/sample_logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/sample/sample_wish.h"
#include "kernels/sample/sample_world.h"
#include "kernels/testing/compare.h"

namespace k3::kernels {
namespace {

// The raw logits' own log-softmax.
std::vector<double> RawLogprobs(std::span<const float> logits) {
  long double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<long double>(logit));
  std::vector<double> logprobs;
  for (float logit : logits)
    logprobs.push_back(static_cast<double>(static_cast<long double>(logit) - std::log(sum)));
  return logprobs;
}

// The id that `place` others stand before; -1 when there are not so many.
std::int32_t IdAt(std::span<const float> logits, std::size_t place) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    std::size_t before = 0;
    for (std::size_t j = 0; j < logits.size(); ++j)
      before += logits[j] > logits[i] || (logits[j] == logits[i] && j < i) ? 1 : 0;
    if (before == place) return static_cast<std::int32_t>(i);
  }
  return -1;
}

void ExpectRow(const Answer& answer, std::int64_t r, std::span<const float> logits,
               const std::string& what) {
  const std::vector<double> want = RawLogprobs(logits);
  const auto of = [&want](std::int32_t id) {
    return static_cast<float>(id < 0 ? kNever : want[static_cast<std::size_t>(id)]);
  };
  std::vector<float> logprobs;
  if (answer.tokens.At(0, r) >= 0) logprobs.push_back(of(answer.tokens.At(0, r)));
  double sum = 0;
  for (std::int64_t j = 0; j < answer.ids.cols(); ++j) {
    const std::int32_t id = IdAt(logits, static_cast<std::size_t>(j));
    EXPECT_EQ(answer.ids.At(r, j), id) << what << " place " << j;
    logprobs.push_back(of(id));
    sum += std::exp(static_cast<double>(answer.logprobs.At(r, 1 + j)));
  }
  const std::span<const float> got = answer.logprobs.RowSpan(r);
  ExpectNear(got.last(logprobs.size()), logprobs, 1e-6, 1e-6, what);
  const bool all = answer.ids.cols() >= static_cast<std::int64_t>(logits.size());
  EXPECT_NEAR(all ? sum : 1, 1, 1e-6) << what;
}

// Kills: log probabilities of the masked, banned, edited or heated logits, of ids beyond the limit,
// that do not sum to 1, a base that is not e; the chosen column swapped with the first or read by
// rank; ties to the highest id, a place skipped, ids invented where there are too few; another
// row's token; a token that changes because someone asks.
TEST(SampleLogprobs, AreTheRawOnesUnderRandomOptions) {
  Random random(LawSeed(17));
  for (int round = 0; round < 300; ++round) {
    const int width = 1 + random.Below(60);
    const int limit = width - random.Below(width < 4 ? width : 4);
    const int tops[] = {0, 1, 5, width, width + 3};
    const Asked asked{limit, tops[random.Below(5)]};
    Matrix<float> logits(3, width);
    random.FillNormal(logits.span(), 4);
    for (float& value : logits.span())
      if (random.Below(2) == 0) value = Quarters(random, -20, 20);
    if (limit > 1) logits.At(1, random.Below(limit - 1)) = -INFINITY;
    const std::vector<Wish> wishes = RandomWishes(random, {3, width});
    ForEachSampler([&](const auto& op, const std::string& what) {
      const Answer answer = SampledWithLogprobs(logits, RowsOf(wishes), asked, op);
      const Tokens tokens(answer.tokens.span().begin(), answer.tokens.span().end());
      EXPECT_EQ(tokens, Sampled(logits, RowsOf(wishes), limit, op)) << what;
      for (std::int64_t r = 0; r < 3; ++r) {
        const auto known = logits.RowSpan(r).first(static_cast<std::size_t>(limit));
        ExpectRow(answer, r, known, what + " round " + std::to_string(round));
      }
    });
    if (HasFailure()) return;
  }
}

// Kills: sums that lose what a long row adds up to, a selection that is only right when the largest
// come first. The logits rise, so that each id is better than all before.
TEST(SampleLogprobs, OfARowAsLongAsTheVocabulary) {
  constexpr int kWidth = 163840;
  Matrix<float> logits(1, kWidth);
  long double sum = 0;
  for (int i = 0; i < kWidth; ++i) {
    logits.At(0, i) = static_cast<float>(i) * 1e-5F;
    sum += std::exp(static_cast<long double>(logits.At(0, i)));
  }
  ForEachSampler([&](const auto& op, const std::string& what) {
    const Answer answer = SampledWithLogprobs(logits, {SampleRow{}}, {kWidth, 20}, op);
    for (int j = 0; j < 20; ++j) {
      const auto id = static_cast<std::int32_t>(kWidth - 1 - j);
      EXPECT_EQ(answer.ids.At(0, j), id) << what;
      const double want = logits.At(0, id) - static_cast<double>(std::log(sum));
      EXPECT_NEAR(answer.logprobs.At(0, 1 + j), want, 2e-6) << what;
    }
    EXPECT_EQ(answer.logprobs.At(0, 0), answer.logprobs.At(0, 1)) << what;
  });
}

// Kills: a NaN that no one may choose and that comes out as a number, or as ids in some order.
TEST(SampleLogprobs, AMaskedNanLeavesNone) {
  for (float bad : {NAN, INFINITY}) {
    Matrix<float> logits(1, 40);
    logits.At(0, 20) = bad;
    const std::int32_t banned = 20;
    const SampleRow row{.banned = &banned, .num_banned = 1};
    ForEachSampler([&](const auto& op, const std::string& what) {
      const Answer answer = SampledWithLogprobs(logits, {row}, {40, 3}, op);
      EXPECT_EQ(answer.tokens.At(0, 0), 0) << what;
      for (float logprob : answer.logprobs.span()) EXPECT_TRUE(std::isnan(logprob)) << what;
      for (std::int32_t id : answer.ids.span()) EXPECT_EQ(id, -1) << what;
    });
  }
}

// Kills: a series cut too early, a mantissa on the wrong side of sqrt(2), an exponent off by one.
TEST(SampleLogprobs, NaturalLogIsLibms) {
  Random random(LawSeed(4));
  constexpr double kUlp = std::numeric_limits<double>::epsilon();
  EXPECT_EQ(NaturalLog(1), 0);
  for (int i = 0; i < 20000; ++i) {
    const double x = std::ldexp(1 + random.Uniform(), random.Below(40) - 4);
    const double want = std::log(x);
    EXPECT_NEAR(NaturalLog(x), want, 2 * kUlp * std::max(std::fabs(want), 1e-3)) << x;
  }
}

}  // namespace
}  // namespace k3::kernels
