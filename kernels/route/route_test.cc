#include <algorithm>
#include <cmath>
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

struct Choice {
  Choice(std::int64_t rows, std::int64_t k) : ids(rows, k), weights(rows, k) {}
  Matrix<std::int32_t> ids;
  Matrix<float> weights;
};

struct Weighting {
  bool renormalize = true;
  float scaling = 1;
};

template <typename Op>
Choice Routed(const Matrix<float>& logits, const Matrix<float>& bias, std::int64_t k, const Op& op,
              const Weighting& weighting = {}) {
  Choice choice(logits.rows(), k);
  op(RouteArgs{logits.view(), bias.view(), weighting.renormalize, weighting.scaling,
               choice.ids.view(), choice.weights.view()});
  return choice;
}
auto Cpu(const CpuOps& ops, int threads = 1) {
  return [&ops, threads](const RouteArgs& args) { RunCpu(ops.route, args, threads); };
}
void Ref(const RouteArgs& args) {
  ref::Route(args);
}

// Golden ids come best first; ours by id. Weights follow their ids.
void SortById(Matrix<std::int32_t>& ids, Matrix<float>& weights) {
  for (std::int64_t r = 0; r < ids.rows(); ++r) {
    std::vector<std::pair<std::int32_t, float>> pairs;
    for (std::int64_t j = 0; j < ids.cols(); ++j)
      pairs.emplace_back(ids.At(r, j), weights.At(r, j));
    std::sort(pairs.begin(), pairs.end());
    for (std::int64_t j = 0; j < ids.cols(); ++j) {
      ids.At(r, j) = pairs[static_cast<std::size_t>(j)].first;
      weights.At(r, j) = pairs[static_cast<std::size_t>(j)].second;
    }
  }
}

// Kills: the bias ignored (it changes all eight rows), the bias inside the weights, softmax instead
// of sigmoid, slots not sorted by id.
TEST(Route, MatchesGolden) {
  const auto golden = GoldenFile::OpenShared("vectors/ops.safetensors");
  if (!golden) return;
  const auto logits = golden->Read<float>("router.logits");
  const auto bias = golden->Read<float>("router.bias");
  auto ids = golden->Read<std::int32_t>("router.topk_ids");
  auto weights = golden->Read<float>("router.topk_weights");
  SortById(ids, weights);
  const auto check = [&](const Choice& got, const std::string& what) {
    ExpectSameBits(got.ids, ids, what);
    ExpectNear(got.weights, weights, 1e-6, 0, what);
  };
  check(Routed(logits, bias, 16, Ref), "ref");
  for (const CpuOps* ops : AllCpuSets()) check(Routed(logits, bias, 16, Cpu(*ops)), ops->isa);
}

// Kills: ties to the highest id, or to whoever came last.
TEST(Route, TiesGoToTheLowestId) {
  const auto golden = GoldenFile::OpenShared("vectors/ops.safetensors");
  if (!golden) return;
  const auto logits = golden->Read<float>("router_tie.logits");
  const Matrix<float> bias(1, 64);
  auto ids = golden->Read<std::int32_t>("router_tie.topk_ids");
  std::sort(ids.span().begin(), ids.span().end());
  ExpectSameBits(Routed(logits, bias, 16, Ref).ids, ids, "ref");
  for (const CpuOps* ops : AllCpuSets())
    ExpectSameBits(Routed(logits, bias, 16, Cpu(*ops)).ids, ids, ops->isa);
}

// The same without golden data: equal logits everywhere, then two values.
TEST(Route, TiesWithoutGoldenData) {
  // Kills: ties to the highest id.
  Matrix<float> logits(1, 37);
  const Matrix<float> bias(1, 37);
  const std::vector<std::int32_t> lowest = {0, 1, 2, 3};
  const std::vector<std::int32_t> raised = {0, 1, 30, 36};
  for (const CpuOps* ops : AllCpuSets()) {
    Choice got = Routed(logits, bias, 4, Cpu(*ops));
    EXPECT_TRUE(std::equal(lowest.begin(), lowest.end(), got.ids.Row(0))) << ops->isa;
    logits.At(0, 36) = logits.At(0, 30) = 1;
    got = Routed(logits, bias, 4, Cpu(*ops));
    EXPECT_TRUE(std::equal(raised.begin(), raised.end(), got.ids.Row(0))) << ops->isa;
    logits.At(0, 36) = logits.At(0, 30) = 0;
  }
}

// Kills: bits that depend on rows beside it, threads or set; renormalisation or scaling forgotten.
TEST(Route, SetsAgreeAndAreCloseToReference) {
  Random random(LawSeed(7));
  for (std::int64_t experts : {8, 37, 896}) {
    Matrix<float> logits(21, experts), bias(1, experts);
    random.FillNormal(logits.span(), 2);
    random.FillNormal(bias.span(), 0.1F);
    for (bool renormalize : {false, true}) {
      const Choice want = Routed(logits, bias, 8, Ref, {renormalize, 2.5F});
      const Choice first = Routed(logits, bias, 8, Cpu(*AllCpuSets()[0]), {renormalize, 2.5F});
      ExpectSameBits(first.ids, want.ids, "ids");  // 1e-7 apart would be a rare near-tie
      ExpectNear(first.weights, want.weights, 0, 2e-6, "weights");
      for (const CpuOps* ops : AllCpuSets()) {
        const Choice got = Routed(logits, bias, 8, Cpu(*ops, 2), {renormalize, 2.5F});
        ExpectSameBits(got.ids, first.ids, ops->isa);
        ExpectSameBits(got.weights, first.weights, ops->isa);
      }
    }
  }
}

// Kills: an id outside the table or chosen twice when logits are NaN; a NaN that is routed around,
// so that the damaged row would become text.
TEST(Route, NanStaysInsideAndIsSeen) {
  Matrix<float> logits(3, 20), bias(1, 20);
  for (float& value : logits.RowSpan(0)) value = NAN;
  logits.At(1, 7) = NAN;
  const auto check = [](const Choice& got, const std::string& what) {
    for (int r = 0; r < 2; ++r) {
      for (int j = 0; j < 4; ++j) {
        EXPECT_EQ(got.ids.At(r, j), j) << what;
        EXPECT_TRUE(std::isnan(got.weights.At(r, j))) << what;
      }
    }
    for (int j = 0; j < 4; ++j) EXPECT_EQ(got.weights.At(2, j), 0.25F) << what;
  };
  check(Routed(logits, bias, 4, Ref), "ref");
  for (const CpuOps* ops : AllCpuSets()) check(Routed(logits, bias, 4, Cpu(*ops)), ops->isa);
}

// Kills: a load that overwrites what was there, counts a row for each thread or piece, leaves rows
// out, counts weights; one that is written though nobody wants it (its dtype would abort).
TEST(Route, LoadIsAddedUp) {
  Random random(LawSeed(9));
  for (std::int64_t rows : {0, 1, 23}) {
    Matrix<float> logits(rows, 12), bias(1, 12);
    random.FillNormal(logits.span(), 2);
    const auto check = [&](const auto& op, const std::string& what) {
      Choice choice(rows, 5);
      Matrix<std::int32_t> load(1, 12), want(1, 12);
      for (std::int64_t e = 0; e < 12; ++e)
        load.At(0, e) = want.At(0, e) = static_cast<std::int32_t>(1000 * e);
      RouteArgs args{logits.view(),     bias.view(),           true,       1,
                     choice.ids.view(), choice.weights.view(), load.view()};
      op(args);
      op(args);
      for (std::int32_t id : choice.ids.span()) want.At(0, id) += 2;
      ExpectSameBits(load, want, what);
      args.load = {};
      op(args);
      ExpectSameBits(load, want, what);
    };
    check(Ref, "ref");
    for (const CpuOps* ops : AllCpuSets())
      for (int threads : {1, 2}) check(Cpu(*ops, threads), ops->isa);
  }
}

// Kills: a list of k that is wrong when every expert is chosen, or one.
TEST(Route, AllAndOne) {
  Random random(2);
  Matrix<float> logits(1, 9), bias(1, 9);
  random.FillNormal(logits.span());
  for (const CpuOps* ops : AllCpuSets()) {
    const Choice all = Routed(logits, bias, 9, Cpu(*ops));
    for (int j = 0; j < 9; ++j) EXPECT_EQ(all.ids.At(0, j), j);
    const Choice one = Routed(logits, bias, 1, Cpu(*ops));
    const auto largest = std::max_element(logits.span().begin(), logits.span().end());
    EXPECT_EQ(one.ids.At(0, 0), largest - logits.span().begin());
    EXPECT_EQ(one.weights.At(0, 0), 1.0F);
  }
}

}  // namespace
}  // namespace k3::kernels
