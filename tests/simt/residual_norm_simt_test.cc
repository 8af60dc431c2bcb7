#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/residual_norm/residual_norm_problem.h"
#include "tests/simt/residual_norm_launch.h"

namespace k3::simt {
namespace {

using kernels::ResidualNormArgs;
using Problem = kernels::ResidualNormProblem;

constexpr int kSeeds = 8;

// Kills: normalised values in the mix (sources of size 1e-3 to 8), eps outside a root, a lost tail
// (C = 37, 300), the gather ignored, a stride taken for C, P read as bf16, a softmax over the wrong
// sources, and any missing barrier or race.
TEST(ResidualNormSimt, FormulaInEveryOrder) {
  for (const auto& [n, c] : {std::pair{1, 37}, {2, 300}, {9, 96}, {32, 37}}) {
    const Problem problem(n, 3, c);
    for (int seed = 1; seed <= kSeeds; ++seed) {
      std::vector<float> out(static_cast<std::size_t>(3 * c));
      const Options options = {.seed = static_cast<std::uint64_t>(seed)};
      const Report report = RunResidualNorm(options, problem.Args(View(out.data(), 3, c)));
      EXPECT_TRUE(report.clean()) << report.first;
      EXPECT_EQ(problem.WrongValues(out), 0) << "n " << n << " C " << c << " seed " << seed;
    }
  }
}

// Kills: a test that could not see a missing barrier; each of the kernel's is left out once.
TEST(ResidualNormSimt, EveryBarrierIsNeeded) {
  const Problem problem(9, 2, 300);
  std::vector<float> out(2 * 300);
  const int sites = RunResidualNorm({}, problem.Args(View(out.data(), 2, 300))).sites;
  EXPECT_EQ(sites, 3);
  for (int site = 0; site < sites; ++site) {
    const Options options = {.omit_site = site};
    const Report report = RunResidualNorm(options, problem.Args(View(out.data(), 2, 300)));
    EXPECT_TRUE(report.races > 0 || problem.WrongValues(out) > 0) << "site " << site;
  }
}

// Kills: sums whose order depends on the batch, and a mix rounded before its norm is taken (the
// bf16 output must be the fp32 one rounded once; the mix is stored beside it).
TEST(ResidualNormSimt, BitsDoNotDependOnNeighbours) {
  constexpr int kRows = 5, kCols = 300;
  const Problem problem(4, kRows, kCols);
  std::vector<float> all(kRows * kCols), one(kCols), mix(kRows * kCols);
  std::vector<Bf16> half(kRows * kCols);
  ResidualNormArgs args = problem.Args(View(all.data(), kRows, kCols));
  args.mix = View(mix.data(), kRows, kCols);
  RunResidualNorm({}, args);
  RunResidualNorm({.seed = 2}, problem.Args(View(half.data(), kRows, kCols)));
  for (int t = 0; t < kRows; ++t) {
    ResidualNormArgs alone = problem.Args(View(one.data(), 1, kCols));
    alone.gather = &problem.gather[t];
    RunResidualNorm({.seed = 3}, alone);
    const std::vector<double> want = problem.Mix(problem.gather[t]);
    for (int k = 0; k < kCols; ++k) {
      ASSERT_EQ(one[k], all[t * kCols + k]);
      ASSERT_EQ(half[t * kCols + k].bits, ToBf16(all[t * kCols + k]).bits);
      ASSERT_NEAR(mix[t * kCols + k], want[k], 1e-5 * (1 + std::abs(want[k])));
    }
  }
}

}  // namespace
}  // namespace k3::simt
