#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/ref_ops.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/cpu_sets.h"
#include "kernels/testing/golden.h"
#include "kernels/testing/random.h"

namespace k3::kernels {
namespace {

struct Results {
  Results(std::int64_t rows, std::int64_t cols) : out(rows, cols), mix(rows, cols) {}
  Matrix<float> out, mix;
};

class Problem {
 public:
  Problem(int sources, std::int64_t rows, std::int64_t cols, std::uint64_t seed)
      : score_(1, cols), weight_(1, cols) {
    Random random(seed);
    random.FillNormal(score_.span(), 3.0F / std::sqrt(static_cast<float>(cols)));
    random.FillNormal(weight_.span(), 0.3F, 1.0F);
    for (int i = 0; i < sources; ++i) {
      owned_.emplace_back(rows, cols);
      random.FillNormal(owned_.back().span(), random.Between(0.5F, 4.0F));
    }
  }
  Matrix<float>& source(std::size_t i) { return owned_[i]; }
  Matrix<float>& score() { return score_; }

  template <typename Op>
  Results Run(const std::vector<std::int32_t>& gather, const Op& op) const {
    const auto rows = static_cast<std::int64_t>(gather.size());
    Results results(rows, score_.cols());
    std::vector<Tensor> views;
    for (const Matrix<float>& source : owned_) views.push_back(source.view());
    ResidualNormArgs args;
    args.sources = views.data();
    args.num_sources = static_cast<int>(views.size());
    if (views.size() > 1) args.score = score_.view();
    args.weight = weight_.view();
    args.eps = 1e-5F;
    args.gather = gather.data();
    args.mix = results.mix.view();
    args.out = results.out.view();
    op(args);
    return results;
  }
  Results RunSet(const std::vector<std::int32_t>& gather, const CpuOps& ops, int threads) const {
    return Run(gather,
               [&](const ResidualNormArgs& args) { RunCpu(ops.residual_norm, args, threads); });
  }
  Results RunRef(const std::vector<std::int32_t>& gather) const {
    return Run(gather, [](const ResidualNormArgs& args) { ref::ResidualNorm(args); });
  }

 private:
  std::vector<Matrix<float>> owned_;
  Matrix<float> score_;
  Matrix<Bf16> weight_;
};

std::vector<std::int32_t> AllRows(int count) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

constexpr std::int64_t kWidths[] = {1, 15, 37, 64, 100, 256, 7168};

// Kills: eps outside a root (rows of 1e-4), a mean over rows, a lost tail, normalised values mixed,
// a score that is not divided by the root, sources left out (17 and 32 need a second vector).
TEST(ResidualNorm, EverySetIsCloseToReference) {
  for (std::int64_t cols : kWidths) {
    for (int sources : {1, 2, 9, 17, 32}) {
      Problem problem(sources, 5, cols, 3);
      for (std::int64_t c = 0; c < cols; ++c) problem.source(0).At(1, c) *= 1e-4F;
      const Results want = problem.RunRef(AllRows(5));
      for (const CpuOps* ops : AllCpuSets()) {
        const Results got = problem.RunSet(AllRows(5), *ops, 2);
        const std::string what =
            std::string(ops->isa) + " n=" + std::to_string(sources) + " C=" + std::to_string(cols);
        ExpectNear(got.out, want.out, 5e-6, 5e-6, what);
        ExpectNear(got.mix, want.mix, 1e-5, 5e-6, what);
      }
    }
  }
}

// Kills: bits that depend on the other rows, on threads or on the instruction set; a gather that is
// ignored or applied to the output.
TEST(ResidualNorm, BitsDependOnTheRowAlone) {
  Random random(LawSeed(6));
  for (std::int64_t cols : {37, 256}) {
    const Problem problem(7, 20, cols, random.Next());
    const Results all = problem.RunSet(AllRows(20), *AllCpuSets()[0], 1);
    for (const CpuOps* ops : AllCpuSets()) {
      std::vector<std::int32_t> gather;
      for (int i = random.Below(12); i >= 0; --i) gather.push_back(random.Below(20));
      const Results got = problem.RunSet(gather, *ops, 1 + random.Below(2));
      for (std::size_t r = 0; r < gather.size(); ++r) {
        const auto row = static_cast<std::int64_t>(r);
        ExpectSameBits(got.out.RowSpan(row), all.out.RowSpan(gather[r]), ops->isa);
        ExpectSameBits(got.mix.RowSpan(row), all.mix.RowSpan(gather[r]), ops->isa);
      }
    }
  }
}

// Kills: a softmax of one that is not exactly 1.
TEST(ResidualNorm, OneSourceIsMixedExactly) {
  Problem problem(1, 3, 100, 8);
  for (const CpuOps* ops : AllCpuSets())
    ExpectSameBits(problem.RunSet(AllRows(3), *ops, 1).mix, problem.source(0), ops->isa);
}

// Kills: exp without the maximum taken off (scores in the thousands), a NaN that vanishes.
TEST(ResidualNorm, HugeScoresAndNan) {
  Problem problem(3, 2, 64, 9);
  for (float& value : problem.score().span()) value *= 3000;
  problem.source(1).At(1, 63) = NAN;
  const Results want = problem.RunRef({0});
  for (const CpuOps* ops : AllCpuSets()) {
    const Results got = problem.RunSet(AllRows(2), *ops, 1);
    ExpectNear(got.out.RowSpan(0), want.out.RowSpan(0), 1e-3, 1e-3, ops->isa);
    for (float value : got.out.RowSpan(1)) EXPECT_TRUE(std::isnan(value));
  }
}

Matrix<float> Widen(const Matrix<Bf16>& from) {
  Matrix<float> to(from.rows(), from.cols());
  for (std::size_t i = 0; i < from.span().size(); ++i) to.span()[i] = ToFloat(from.span()[i]);
  return to;
}

// What golden AttnRes holds, as the op takes it: score = norm weight * projection.
struct AttnRes {
  explicit AttnRes(const GoldenFile& golden)
      : sources(Widen(golden.Read<Bf16>("attnres.sources"))), score(1, 7168), ones(1, 7168) {
    const auto norm = golden.Read<Bf16>("attnres.norm_weight");
    const auto projection = golden.Read<Bf16>("attnres.proj_weight");
    for (std::int64_t c = 0; c < 7168; ++c) {
      score.At(0, c) = ToFloat(norm.At(0, c)) * ToFloat(projection.At(0, c));
      ones.At(0, c) = ToBf16(1.0F);
    }
  }
  // Sources first..8 of both tokens.
  template <typename Op>
  Matrix<float> Mix(int first, const Op& op) const {
    std::vector<Tensor> views;
    for (int i = first; i < 9; ++i) {
      Tensor view = View(sources.Row(i), 2, 7168);
      view.stride = 9 * 7168;
      views.push_back(view);
    }
    Matrix<float> mix(2, 7168), out(2, 7168);
    ResidualNormArgs args;
    args.sources = views.data();
    args.num_sources = static_cast<int>(views.size());
    args.score = score.view();
    args.weight = ones.view();
    args.eps = 1e-5F;
    args.mix = mix.view();
    args.out = out.view();
    op(args);
    return mix;
  }
  Matrix<float> sources, score;
  Matrix<Bf16> ones;
};

// Kills: normalised values mixed, gamma twice, P not last (out_last2 is sources 7 and 8), a
// 1/sqrt(d) on the scores.
TEST(ResidualNorm, MatchesGoldenAttnRes) {
  const auto golden = GoldenFile::OpenShared("vectors/ops.safetensors");
  if (!golden) return;
  const AttnRes attn(*golden);
  const auto all = golden->Read<float>("attnres.out");
  const auto last = golden->Read<float>("attnres.out_last2");
  const auto by_ref = [](const ResidualNormArgs& args) { ref::ResidualNorm(args); };
  ExpectNear(attn.Mix(0, by_ref), all, 5e-5, 1e-6, "ref");
  ExpectNear(attn.Mix(7, by_ref), last, 5e-5, 1e-6, "ref");
  for (const CpuOps* ops : AllCpuSets()) {
    const auto by_cpu = [&](const ResidualNormArgs& args) { RunCpu(ops->residual_norm, args); };
    ExpectNear(attn.Mix(0, by_cpu), all, 5e-5, 1e-6, ops->isa);
    ExpectNear(attn.Mix(7, by_cpu), last, 5e-5, 1e-6, ops->isa);
  }
}

// Kills: eps outside the root, eps ignored (an all-zero row divides by 0), rounding to bf16 before
// the weight.
TEST(ResidualNorm, MatchesGoldenRmsNorm) {
  const auto golden = GoldenFile::OpenShared("vectors/ops.safetensors");
  if (!golden) return;
  const auto in = golden->Read<float>("rmsnorm.in");
  const auto weight = golden->Read<Bf16>("rmsnorm.weight");
  for (const char* eps : {"1e-5", "1e-6"}) {
    const auto want = golden->Read<float>(std::string("rmsnorm.out_eps") + eps);
    for (const CpuOps* ops : AllCpuSets()) {
      Matrix<float> out(in.rows(), in.cols());
      const Tensor source = in.view();
      ResidualNormArgs args;
      args.sources = &source;
      args.num_sources = 1;
      args.weight = weight.view();
      args.eps = std::strtof(eps, nullptr);
      args.out = out.view();
      RunCpu(ops->residual_norm, args);
      ExpectNear(out, want, 0, 1e-5, std::string(ops->isa) + " eps " + eps);
    }
  }
}

// Kills: a weight of the other type refused or misread (o_norm is F32).
TEST(ResidualNorm, TakesFloatWeights) {
  Random random(4);
  Matrix<float> in(2, 40), out(2, 40), want(2, 40), wide(1, 40);
  Matrix<Bf16> weight(1, 40);
  random.FillNormal(in.span());
  random.FillNormal(weight.span(), 0.2F, 1.0F);
  for (int c = 0; c < 40; ++c) wide.At(0, c) = ToFloat(weight.At(0, c));
  const Tensor source = in.view();
  ResidualNormArgs args;
  args.sources = &source;
  args.num_sources = 1;
  args.eps = 1e-5F;
  args.weight = weight.view();
  args.out = want.view();
  RunCpu(BestCpuSet().residual_norm, args);
  args.weight = wide.view();
  args.out = out.view();
  RunCpu(BestCpuSet().residual_norm, args);
  ExpectSameBits(out, want);
}

}  // namespace
}  // namespace k3::kernels
