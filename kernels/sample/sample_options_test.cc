// What a row may ask for beyond temperature and nucleus: edits, bans, min_p, top_k.
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include <gtest/gtest.h>

#include "kernels/sample/sample_draw.h"
#include "kernels/sample/sample_wish.h"
#include "kernels/sample/sample_world.h"
#include "kernels/testing/compare.h"

namespace k3::kernels {
namespace {

// The contract of sample.h word by word, in double, without sorting: what stands before an id is
// summed for each id anew.
class Oracle {
 public:
  Oracle(const Wish& wish, std::span<const float> logits) : wish_(wish), left_(logits.size()) {
    for (std::size_t i = 0; i < left_.size(); ++i) left_[i] = wish.Final(logits[i], Id(i));
  }

  // Nothing where rounding decides.
  std::optional<std::int32_t> Token() {
    std::int32_t largest = -1;
    for (std::size_t i = 0; i < left_.size(); ++i)
      if (left_[i] > (largest < 0 ? kNever : At(largest))) largest = Id(i);
    if (largest < 0 || wish_.row.temperature == 0) return largest;
    const double top = At(largest);
    for (double& value : left_) value = std::exp((value - top) / wish_.row.temperature);
    DropIf([&](std::size_t i) { return Below(left_[i], wish_.row.min_p); });
    if (wish_.row.top_k > 0)
      DropIf([&](std::size_t i) { return Before(i, [](double) { return 1; }) >= wish_.row.top_k; });
    const double needed = Sum() * static_cast<double>(wish_.row.top_p);
    DropIf([&](std::size_t i) {
      const double before = Before(i, [](double p) { return p; });
      return before > 0 && !Below(before, needed);
    });
    return Draw();
  }

 private:
  static std::int32_t Id(std::size_t i) { return static_cast<std::int32_t>(i); }
  double At(std::int32_t id) const { return left_[static_cast<std::size_t>(id)]; }
  double Sum() const {
    double sum = 0;
    for (double p : left_) sum += p;
    return sum;
  }
  // Sum of a measure over all that stand before i: likelier, or as likely with a lower id.
  template <typename Measure>
  double Before(std::size_t i, const Measure& measure) const {
    double sum = 0;
    for (std::size_t j = 0; j < left_.size(); ++j)
      if (left_[j] > left_[i] || (left_[j] == left_[i] && left_[j] > 0 && j < i))
        sum += measure(left_[j]);
    return sum;
  }
  template <typename Condition>
  void DropIf(const Condition& condition) {
    std::vector<bool> dropped;
    for (std::size_t i = 0; i < left_.size(); ++i) dropped.push_back(condition(i));
    for (std::size_t i = 0; i < left_.size(); ++i)
      if (dropped[i]) left_[i] = 0;
  }
  bool Below(double a, double b) {
    close_ = close_ || (a != b && std::fabs(a - b) < 1e-5 * b);
    return a < b;
  }
  std::optional<std::int32_t> Draw() {
    const double share = std::ldexp(static_cast<double>(RandomBits(wish_.View())), -64);
    const double target = share * Sum();
    for (std::size_t i = 0; i < left_.size(); ++i) {
      const double before = Before(i, [](double p) { return p; });
      const bool begun = left_[i] > 0 && !Below(target, before);
      if (begun && Below(target, before + left_[i]))
        return close_ ? std::nullopt : std::optional(Id(i));
    }
    return std::nullopt;
  }

  const Wish& wish_;
  std::vector<double> left_;  // edited logits, then p; 0 where dropped
  bool close_ = false;
};

// Quarters, so that edits are exact in float and ties are many.
void FillQuarters(std::span<float> out, Random& random) {
  for (float& value : out) value = Quarters(random, -8, 8);
}

// Kills: a penalty of the wrong sign, repetition before the bias or after minus, repetition that
// divides a negative logit, min_p after top_p, top_p of the mass before top_k, top_k off
// by one or with ties to the highest id, a banned id that is chosen or still has mass, bans or
// edits of the row beside, an edit of an id beyond the limit, logits written to.
TEST(SampleOptions, TokensAreTheOraclesUnderRandomOptions) {
  Random random(LawSeed(5));
  int compared = 0;
  for (int round = 0; round < 1500; ++round) {
    const int width = 1 + random.Below(40);
    const int limit = width - random.Below(width < 4 ? width : 4);
    Matrix<float> logits(4, width), before(4, width);
    FillQuarters(logits.span(), random);
    std::copy(logits.span().begin(), logits.span().end(), before.span().begin());
    const std::vector<Wish> wishes = RandomWishes(random, {4, width});
    std::vector<std::optional<std::int32_t>> want;
    for (int r = 0; r < 4; ++r) {
      const Wish& wish = wishes[static_cast<std::size_t>(r)];
      want.push_back(
          Oracle(wish, logits.RowSpan(r).first(static_cast<std::size_t>(limit))).Token());
      compared += want.back().has_value() ? 1 : 0;
    }
    ForEachSampler([&](const auto& op, const std::string& what) {
      const Tokens got = Sampled(logits, RowsOf(wishes), limit, op);
      for (std::size_t r = 0; r < 4; ++r)
        EXPECT_EQ(got[r], want[r].value_or(got[r])) << what << " round " << round << " row " << r;
      ExpectSameBits(logits, before, what);
    });
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, 1500 * 4 * 9 / 10);
}

// Kills: a top_k that keeps k + 1 or k - 1 of equals, or the highest ids; one that is applied to
// the ids instead of the order.
TEST(SampleOptions, TopKOfEqualsAreTheLowestIds) {
  Matrix<float> logits(200, 50);
  std::vector<SampleRow> rows(200);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = {.temperature = 1, .position = static_cast<std::uint32_t>(i), .top_k = 3};
  for (int r = 0; r < 200; ++r) logits.At(r, 0) = -1;
  ForEachSampler([&](const auto& op, const std::string& what) {
    std::vector<int> seen(51);
    for (std::int32_t token : Sampled(logits, rows, 50, op))
      ++seen[static_cast<std::size_t>(token)];
    EXPECT_EQ(seen[0], 0) << what;
    for (std::size_t id = 1; id <= 3; ++id) EXPECT_GT(seen[id], 30) << what << " id " << id;
    EXPECT_EQ(seen[1] + seen[2] + seen[3], 200) << what;
  });
}

// Kills: a ban or an edit that hides the damage beside it, an edit that heals a NaN or an infinity,
// a row refused for a NaN that is banned, a token out of nothing.
TEST(SampleOptions, EditsAndBansHideNoDamage) {
  ForEachSampler([](const auto& op, const std::string& what) {
    for (float temperature : {0.0F, 1.0F}) {
      for (float bad : {NAN, INFINITY}) {
        Matrix<float> logits(1, 8);
        logits.At(0, 5) = bad;
        const std::int32_t beside = 4, itself = 5;
        const LogitEdit edit{.id = 5, .bias = -100, .repetition = 2, .minus = 100};
        SampleRow row{.temperature = temperature, .banned = &beside, .num_banned = 1};
        EXPECT_EQ(Sampled(logits, {row}, 8, op), Tokens{-1}) << what;
        row = {.temperature = temperature, .edits = &edit, .num_edits = 1};
        EXPECT_EQ(Sampled(logits, {row}, 8, op), Tokens{-1}) << what;
        row = {.temperature = temperature, .banned = &itself, .num_banned = 1};
        EXPECT_NE(Sampled(logits, {row}, 8, op), Tokens{-1}) << what;
        EXPECT_NE(Sampled(logits, {row}, 8, op), Tokens{5}) << what;
      }
      Matrix<float> logits(1, 3);
      const std::int32_t all[4] = {2, 0, 1, 2};
      const SampleRow row{.temperature = temperature, .banned = all, .num_banned = 4};
      EXPECT_EQ(Sampled(logits, {row}, 3, op), Tokens{-1}) << what;
    }
  });
}

// Kills: options that change a token or a bit of the row beside, scratch that one row leaves to the
// next, bits that depend on threads or on the instruction set.
TEST(SampleOptions, BitsDependOnTheRowAlone) {
  Random random(LawSeed(8));
  constexpr int kRows = 9, kWidth = 333, kTop = 7;
  for (int round = 0; round < 5; ++round) {
    Matrix<float> logits(kRows, kWidth);
    random.FillNormal(logits.span(), 3);
    const std::vector<Wish> wishes = RandomWishes(random, {kRows, kWidth});
    const std::vector<SampleRow> rows = RowsOf(wishes);
    const Asked asked{330, kTop};
    const Answer all = SampledWithLogprobs(logits, rows, asked, CpuSampler(*AllCpuSets()[0]));
    for (const CpuOps* ops : AllCpuSets()) {
      const Answer two = SampledWithLogprobs(logits, rows, asked, CpuSampler(*ops, 2));
      ExpectSameBits(two.tokens, all.tokens, ops->isa);
      ExpectSameBits(two.logprobs, all.logprobs, ops->isa);
      ExpectSameBits(two.ids, all.ids, ops->isa);
      for (int r = 0; r < kRows; ++r) {
        Matrix<float> one(1, kWidth);
        std::copy_n(logits.Row(r), kWidth, one.Row(0));
        const auto row = rows[static_cast<std::size_t>(r)];
        const Answer alone = SampledWithLogprobs(one, {row}, asked, CpuSampler(*ops));
        EXPECT_EQ(alone.tokens.At(0, 0), all.tokens.At(0, r)) << ops->isa;
        ExpectSameBits(alone.logprobs.RowSpan(0), all.logprobs.RowSpan(r), ops->isa);
        ExpectSameBits(alone.ids.RowSpan(0), all.ids.RowSpan(r), ops->isa);
      }
    }
  }
}

}  // namespace
}  // namespace k3::kernels
