#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/sample/sample_draw.h"
#include "kernels/sample/sample_world.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/random.h"

namespace k3::kernels {
namespace {

// Kills: a generator that is not Philox-4x32-10 (rounds, constants, order of words): the vectors
// are those its authors publish.
TEST(Sample, PhiloxIsTheKnownFunction) {
  using Four = std::array<std::uint32_t, 4>;
  constexpr std::uint32_t kOnes = 0xffffffffU;
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (Four{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(Philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Four{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(
      Philox({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
      (Four{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

// Kills: a key part that is ignored (upper half of the seed, choice, position).
TEST(Sample, EveryPartOfTheKeyCounts) {
  SampleRow row;
  const std::uint64_t base = RandomBits(row);
  row.seed = 1;
  EXPECT_NE(RandomBits(row), base);
  row.seed = std::uint64_t{1} << 32;
  EXPECT_NE(RandomBits(row), base);
  row = {};
  row.choice = 1;
  EXPECT_NE(RandomBits(row), base);
  const std::uint64_t by_choice = RandomBits(row);
  row = {};
  row.position = 1;
  EXPECT_NE(RandomBits(row), base);
  EXPECT_NE(RandomBits(row), by_choice);
}

// Kills: ties to the highest id, the limit ignored, the mask ignored or read from the wrong bit.
TEST(Sample, GreedyTakesTheLargestAllowed) {
  Matrix<float> logits(1, 70);
  logits.At(0, 40) = logits.At(0, 50) = 2;
  logits.At(0, 66) = 3;
  ForEachSampler([&](const auto& op, const std::string& what) {
    SampleRow row;
    EXPECT_EQ(Sampled(logits, {row}, 70, op), Tokens{66}) << what;
    EXPECT_EQ(Sampled(logits, {row}, 66, op), Tokens{40}) << what;
    const std::vector<std::uint32_t> mask = {~0U, ~(1U << 8), ~4U};  // not 40, not 66
    row.mask = mask.data();
    EXPECT_EQ(Sampled(logits, {row}, 70, op), Tokens{50}) << what;
    row.mask = nullptr;
    for (float& value : logits.span()) value -= 100;  // all negative
    EXPECT_EQ(Sampled(logits, {row}, 70, op), Tokens{66}) << what;
    for (float& value : logits.span()) value += 100;
  });
}

// Kills: a damaged row that answers with a token; a row refused for a NaN that no one may choose.
TEST(Sample, DamagedRowsAnswerMinusOne) {
  ForEachSampler([](const auto& op, const std::string& what) {
    for (float temperature : {0.0F, 1.0F}) {
      SampleRow row;
      row.temperature = temperature;
      for (float bad : {NAN, INFINITY, -NAN}) {
        Matrix<float> logits(1, 40);
        logits.At(0, 20) = bad;
        EXPECT_EQ(Sampled(logits, {row}, 40, op), Tokens{-1}) << what;
        EXPECT_NE(Sampled(logits, {row}, 20, op), Tokens{-1}) << what;
        const std::vector<std::uint32_t> others = {~(1U << 20), ~0U};
        row.mask = others.data();
        EXPECT_NE(Sampled(logits, {row}, 40, op), Tokens{-1}) << what;
        row.mask = nullptr;
      }
      Matrix<float> logits(1, 40);
      const std::vector<std::uint32_t> none = {0, 0};
      row.mask = none.data();
      EXPECT_EQ(Sampled(logits, {row}, 40, op), Tokens{-1}) << what;
      row.mask = nullptr;
      for (float& value : logits.span()) value = -INFINITY;
      EXPECT_EQ(Sampled(logits, {row}, 40, op), Tokens{-1}) << what;
      logits.At(0, 9) = -5;
      EXPECT_EQ(Sampled(logits, {row}, 40, op), Tokens{9}) << what;
    }
  });
}

// The law, by whole numbers and a full sort: what the draw must be for given weights.
std::int32_t NaiveDraw(const SampleRow& row, const std::vector<float>& weights) {
  struct Item {
    float weight;
    std::int32_t id;
    std::uint64_t mass;
  };
  std::vector<Item> items;
  std::uint64_t total = 0;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(weights.size()); ++id) {
    if (row.mask != nullptr && ((row.mask[id / 32] >> (id % 32)) & 1U) == 0) continue;
    const float weight = weights[static_cast<std::size_t>(id)];
    if (weight < row.min_p) continue;
    items.push_back({weight, id, static_cast<std::uint64_t>(std::ldexp(double(weight), 40))});
  }
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.weight > b.weight; });
  const auto top_k = static_cast<std::size_t>(row.top_k);
  if (top_k > 0 && top_k < items.size()) items.resize(top_k);
  for (const Item& item : items) total += item.mass;
  const auto needed = static_cast<std::uint64_t>(
      std::ceil(static_cast<long double>(total) * static_cast<long double>(row.top_p)));
  std::uint64_t nucleus = 0;
  std::size_t size = 0;
  while (size < items.size() && (nucleus < needed || size == 0)) nucleus += items[size++].mass;
  const long double share = static_cast<long double>(RandomBits(row)) * 0x1p-64L;
  const auto target = static_cast<std::uint64_t>(share * static_cast<long double>(nucleus));
  std::uint64_t sum = 0;
  for (const Item& item : items) {
    sum += item.mass;
    if (sum > target) return item.id;
  }
  return -1;
}

// Kills: a nucleus one token too long or short, ties cut at the wrong id, a threshold instead of
// the order (equal weights), a draw from outside the nucleus, masked ids that keep their mass; a
// min_p that drops the equal, top_k off by one, top_p of the mass they dropped.
TEST(Sample, DrawIsTheNaiveOneUnderRandomSteps) {
  Random random(LawSeed(31));
  for (int round = 0; round < 3000; ++round) {
    const int count = 1 + random.Below(round % 10 == 0 ? 3000 : 40);
    std::vector<float> weights(static_cast<std::size_t>(count));
    for (float& w : weights)  // many ties, many tiny ones
      w = random.Below(3) == 0 ? 0.25F : std::exp(-random.Between(0, 40));
    weights[static_cast<std::size_t>(random.Below(count))] = 1.0F;
    std::vector<std::uint32_t> mask(static_cast<std::size_t>(count + 31) / 32);
    for (std::uint32_t& word : mask) word = static_cast<std::uint32_t>(random.Next());
    SampleRow row;
    row.seed = random.Next();
    row.position = static_cast<std::uint32_t>(random.Next());
    const float tops[] = {
        1.0F, 0.5F, 0.25F, 0.9F, 0.999F, 1e-6F, static_cast<float>(random.Uniform())};
    row.top_p = tops[random.Below(7)];
    const float least[] = {0.0F, 0.0F, 0.25F, 1.0F, static_cast<float>(random.Uniform())};
    row.min_p = least[random.Below(5)];
    row.top_k = random.Below(2) == 0 ? 0 : 1 + random.Below(count + 2);
    const bool masked = random.Below(2) == 0;
    if (masked) mask[0] |= 1U;
    if (masked) weights[0] = 1.0F;  // the largest of those allowed is 1
    row.mask = masked ? mask.data() : nullptr;
    const std::int32_t want = NaiveDraw(row, weights);
    ASSERT_EQ(DrawToken(row, weights.data(), count), want)
        << "round " << round << " top_p " << row.top_p << " min_p " << row.min_p << " top_k "
        << row.top_k << " count " << count;
  }
}

struct Law {
  std::vector<double> p;  // of the tokens drawn, in [0, 1]
  float temperature;
  float top_p;
};

// Pearson's statistic of `draws` tokens against the law; tokens outside it fail at once.
template <typename Op>
double ChiSquare(const Law& law, const Matrix<float>& one_row, int draws, const Op& op) {
  Matrix<float> logits(draws, one_row.cols());
  std::vector<SampleRow> rows(static_cast<std::size_t>(draws));
  for (int i = 0; i < draws; ++i) {
    std::copy_n(one_row.Row(0), one_row.cols(), logits.Row(i));
    SampleRow& row = rows[static_cast<std::size_t>(i)];
    row.temperature = law.temperature;
    row.top_p = law.top_p;
    row.seed = 99;
    row.position = static_cast<std::uint32_t>(i);
  }
  std::vector<int> seen(law.p.size());
  for (std::int32_t token : Sampled(logits, rows, static_cast<int>(one_row.cols()), op))
    ++seen[static_cast<std::size_t>(token)];
  double statistic = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const double expected = law.p[i] * draws;
    EXPECT_TRUE(expected > 0 || seen[i] == 0) << "token " << i;
    if (expected > 0) statistic += (seen[i] - expected) * (seen[i] - expected) / expected;
  }
  return statistic;
}

// Kills: a temperature that multiplies, top_p applied before the temperature, a nucleus that is not
// renormalised, a biased draw. 0.001 limits of chi-square: 7 degrees 24.3, 2 degrees 13.8.
TEST(Sample, DrawsFollowTheLaw) {
  Matrix<float> logits(1, 8);
  const double base[8] = {0.02, 0.3, 0.05, 0.25, 0.08, 0.1, 0.15, 0.05};
  for (int i = 0; i < 8; ++i) logits.At(0, i) = static_cast<float>(std::log(base[i])) + 7;
  Law plain{{base, base + 8}, 1.0F, 1.0F};
  Law warm{std::vector<double>(8), 2.0F, 1.0F};
  double sum = 0;
  for (double p : base) sum += std::sqrt(p);
  for (std::size_t i = 0; i < 8; ++i) warm.p[i] = std::sqrt(base[i]) / sum;
  const Law nucleus{{0, 0.3 / 0.7, 0, 0.25 / 0.7, 0, 0, 0.15 / 0.7, 0}, 1.0F, 0.6F};
  ForEachSampler([&](const auto& op, const std::string& what) {
    EXPECT_LT(ChiSquare(plain, logits, 6000, op), 24.3) << what;
    EXPECT_LT(ChiSquare(warm, logits, 6000, op), 24.3) << what;
    EXPECT_LT(ChiSquare(nucleus, logits, 6000, op), 13.8) << what;
  });
}

// Kills: tokens that depend on the other rows, on threads or on the instruction set; a reference
// that draws otherwise.
TEST(Sample, TokensDependOnTheRowAlone) {
  Random random(LawSeed(12));
  Matrix<float> logits(12, 1003);
  random.FillNormal(logits.span(), 3);
  std::vector<SampleRow> rows(12);
  for (SampleRow& row : rows) {
    row.temperature = random.Between(0.3F, 2);
    row.top_p = random.Below(2) == 0 ? 1.0F : 0.9F;
    row.seed = random.Next();
    row.position = static_cast<std::uint32_t>(random.Next());
  }
  const Tokens all = Sampled(logits, rows, 1000, CpuSampler(*AllCpuSets()[0]));
  EXPECT_EQ(Sampled(logits, rows, 1000, RefSampler), all);
  for (const CpuOps* ops : AllCpuSets()) {
    EXPECT_EQ(Sampled(logits, rows, 1000, CpuSampler(*ops, 2)), all) << ops->isa;
    for (std::int64_t r = 0; r < 12; ++r) {
      Matrix<float> one(1, 1003);
      std::copy_n(logits.Row(r), 1003, one.Row(0));
      const auto i = static_cast<std::size_t>(r);
      EXPECT_EQ(Sampled(one, {rows[i]}, 1000, CpuSampler(*ops)), Tokens{all[i]}) << ops->isa;
    }
  }
}

// Kills: a division by a tiny temperature that makes NaN of 0 / 0 or inf - inf.
TEST(Sample, ATinyTemperatureIsGreedy) {
  Random random(3);
  Matrix<float> logits(1, 100);
  random.FillNormal(logits.span(), 5);
  SampleRow greedy, cold;
  cold.temperature = 1e-30F;
  ForEachSampler([&](const auto& op, const std::string& what) {
    EXPECT_EQ(Sampled(logits, {cold}, 100, op), Sampled(logits, {greedy}, 100, op)) << what;
  });
}

}  // namespace
}  // namespace k3::kernels
