#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/base/bf16.h"
#include "tests/simt/toy_launch.h"

namespace k3::simt {
namespace {

constexpr int kSeeds = 20;

std::vector<float> Noise(std::size_t count, float scale) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

// One launch: the machine's report, and whether the numbers were right.
struct Outcome {
  Report report;
  bool right;
};
using Trial = std::function<Outcome(const Options&)>;

bool Near(float got, double want, double tolerance) {
  return std::abs(got - want) < tolerance;
}

Outcome BlockSum(const Options& options) {
  constexpr int kBlocks = 3, kLength = 1000;
  const std::vector<float> x = Noise(kBlocks * kLength, 1);
  std::vector<float> y(kBlocks);
  Outcome outcome = {toy::RunBlockSum(options, x.data(), y.data(), kBlocks, kLength), true};
  for (int b = 0; b < kBlocks; ++b) {
    double want = 0;
    for (int i = 0; i < kLength; ++i) want += x[b * kLength + i];
    outcome.right &= Near(y[b], want, 1e-3);
  }
  return outcome;
}

Outcome RowNorms(const Options& options) {
  constexpr int kRows = 6, kLength = 512;
  std::vector<float> x = Noise(kRows * kLength, 1), y(x.size());
  for (int i = 0; i < kRows * kLength; ++i) {
    const int row = i / kLength;
    x[i] *= static_cast<float>(1 + row);
  }
  Outcome outcome = {toy::RunRowNorms(options, x.data(), y.data(), kRows, kLength), true};
  for (int r = 0; r < kRows; ++r) {
    double squares = 0;
    for (int i = 0; i < kLength; ++i) squares += std::pow(double{x[r * kLength + i]}, 2);
    const double scale = 1 / std::sqrt(squares / kLength + 1e-5);
    for (int i = r * kLength; i < (r + 1) * kLength; ++i) {
      outcome.right &= Near(y[i], x[i] * scale, 1e-4);
    }
  }
  return outcome;
}

Outcome Recurrence(const Options& options) {
  constexpr int kDim = 128;
  constexpr float kBeta = 0.5F;
  std::vector<float> state = Noise(kDim * kDim, 0.1F), out(kDim);
  const std::vector<float> before = state;
  const std::vector<float> q = Noise(kDim, 0.1F), k = Noise(kDim, 0.2F), v = Noise(kDim, 0.3F);
  std::vector<float> decay = Noise(kDim, 1);
  for (float& value : decay) value = -std::abs(value);
  const Report report = toy::RunRecurrence(
      options, {state.data(), q.data(), k.data(), v.data(), decay.data(), kBeta, out.data()});
  Outcome outcome = {report, true};
  for (int j = 0; j < kDim; ++j) {
    const auto kept = [&](int i) { return double{before[i * kDim + j]} * std::exp(decay[i]); };
    double recalled = 0, want = 0;
    for (int i = 0; i < kDim; ++i) recalled += k[i] * kept(i);
    for (int i = 0; i < kDim; ++i) want += q[i] * (kept(i) + k[i] * kBeta * (v[j] - recalled));
    outcome.right &= Near(out[j], want, 1e-4);
  }
  return outcome;
}

Outcome MmaTile(const Options& options) {
  std::vector<std::uint16_t> a, b;
  for (const float value : Noise(16 * 16, 1)) a.push_back(ToBf16(value).bits);
  for (const float value : Noise(16 * 8, 2)) b.push_back(ToBf16(value).bits);
  std::vector<float> c(16 * 8);
  Outcome outcome = {toy::RunMmaTile(options, a.data(), b.data(), c.data()), true};
  for (int i = 0; i < 16 * 8; ++i) {
    double want = 0;
    for (int k = 0; k < 16; ++k) {
      want += ToFloat(Bf16{a[i / 8 * 16 + k]}) * ToFloat(Bf16{b[i % 8 * 16 + k]});
    }
    outcome.right &= Near(c[i], want, 1e-3);
  }
  return outcome;
}

// In every order the whole kernel is right and quiet; with any one synchronisation left out, every
// order shows it, by a wrong number or by a race; and some order does by numbers alone.
void ExpectEverySiteIsNeeded(const Trial& trial, int sites) {
  std::vector<int> wrong(static_cast<std::size_t>(sites));
  for (int seed = 0; seed < kSeeds; ++seed) {
    Options options = {.seed = static_cast<std::uint64_t>(seed) + 1};
    if (seed == 0) options.order = Order::kForward;
    if (seed == 1) options.order = Order::kReverse;
    const Outcome whole = trial(options);
    EXPECT_TRUE(whole.right) << "seed " << seed;
    EXPECT_TRUE(whole.report.clean()) << whole.report.first;
    ASSERT_EQ(whole.report.sites, sites);
    for (options.omit_site = 0; options.omit_site < sites; ++options.omit_site) {
      const Outcome broken = trial(options);
      EXPECT_TRUE(!broken.right || broken.report.races > 0)
          << "site " << options.omit_site << " left out and not noticed, seed " << seed;
      if (!broken.right) ++wrong[static_cast<std::size_t>(options.omit_site)];
    }
  }
  for (const int orders : wrong) EXPECT_GT(orders, kSeeds / 2);
}

// Kills: a machine that runs warps to the end one after another, or whose detector is deaf.
TEST(Simt, ReadBeforeWriteIsSeen) {
  ExpectEverySiteIsNeeded(BlockSum, 1);
}

// Kills: a detector without reads; fair orders alone never show a write that comes too early.
TEST(Simt, WriteAfterReadIsSeen) {
  ExpectEverySiteIsNeeded(RowNorms, 2);
}

// Kills: clocks that treat the lanes of one warp as ordered.
TEST(Simt, UnstagedVectorIsSeen) {
  ExpectEverySiteIsNeeded(Recurrence, 1);
}

// Kills: a copy that lands at once, and a wrong fragment layout of the matrix instruction.
TEST(Simt, CopyWithoutWaitIsSeen) {
  ExpectEverySiteIsNeeded(MmaTile, 1);
}

// Kills: poison alone. In this order the numbers are right although the barrier is missing.
TEST(Simt, RaceIsSeenWhereTheNumbersAreRight) {
  const Outcome lucky = BlockSum({.order = Order::kReverse, .seed = 1, .omit_site = 0});
  EXPECT_TRUE(lucky.right);
  EXPECT_GT(lucky.report.races, 0);
  EXPECT_NE(lucky.report.first.find("unordered write"), std::string::npos) << lucky.report.first;
}

// Kills: a machine that hangs, or that lets two different barriers pass for one.
TEST(Simt, DeadlockAndDivergenceAreNamed) {
  EXPECT_GT(toy::RunDivergent({}).divergent, 0);
  const Report report = toy::RunDeadlock({});
  EXPECT_EQ(report.deadlocks, 1);
  EXPECT_NE(report.first.find("deadlock"), std::string::npos) << report.first;
}

}  // namespace
}  // namespace k3::simt
