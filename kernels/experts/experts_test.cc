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

// A weight and the memory it lies in.
struct OwnedWeight {
  OwnedWeight(std::int64_t out, std::int64_t in) : packed(out, in / 2), scale(out, in / 32) {}
  Mxfp4Weight view() const { return {packed.view(), scale.view()}; }
  Matrix<std::uint8_t> packed, scale;
};

// `count` experts with random weights of gain about 1.
class Model {
 public:
  Model(int count, std::int64_t latent, std::int64_t width, Random& random) : latent_(latent) {
    for (int e = 0; e < count; ++e) {
      owned_.emplace_back(width, latent);
      owned_.emplace_back(width, latent);
      owned_.emplace_back(latent, width);
    }
    const int middle = 126 - static_cast<int>(std::lround(0.5 * std::log2(double(latent)) + 1));
    for (OwnedWeight& weight : owned_) {
      random.FillBytes(weight.packed.span());
      random.FillScales(weight.scale.span(), middle - 1, middle + 1);
    }
    for (std::size_t e = 0; e < owned_.size(); e += 3)
      experts_.push_back({owned_[e].view(), owned_[e + 1].view(), owned_[e + 2].view()});
  }
  std::int64_t latent() const { return latent_; }
  int count() const { return static_cast<int>(experts_.size()); }
  const ExpertWeights* experts() const { return experts_.data(); }
  OwnedWeight& weight(std::size_t expert, std::size_t which) { return owned_[3 * expert + which]; }

 private:
  std::int64_t latent_;
  std::vector<OwnedWeight> owned_;
  std::vector<ExpertWeights> experts_;
};

struct Inputs {
  Inputs(std::int64_t rows, const Model& model, int slots, Random& random)
      : x(rows, model.latent()), ids(rows, slots), weights(rows, slots) {
    random.FillNormal(x.span());
    std::vector<std::int32_t> all(static_cast<std::size_t>(model.count()));
    for (std::int64_t r = 0; r < rows; ++r) {
      std::iota(all.begin(), all.end(), 0);
      while (all.size() > static_cast<std::size_t>(slots))
        all.erase(all.begin() + random.Below(static_cast<int>(all.size())));
      std::copy(all.begin(), all.end(), ids.Row(r));
      all.resize(static_cast<std::size_t>(model.count()));
      for (float& w : weights.RowSpan(r)) w = random.Between(0.05F, 0.5F);
    }
  }
  Matrix<float> x;
  Matrix<std::int32_t> ids;
  Matrix<float> weights;
};

template <typename Op>
Matrix<float> Run(const Model& model, const Inputs& in, const std::vector<int>& rows,
                  const Op& op) {
  const auto count = static_cast<std::int64_t>(rows.size());
  Matrix<float> x(count, in.x.cols()), weights(count, in.weights.cols()), out(count, in.x.cols());
  Matrix<std::int32_t> ids(count, in.ids.cols());
  for (std::int64_t r = 0; r < count; ++r) {
    const int from = rows[static_cast<std::size_t>(r)];
    std::copy_n(in.x.Row(from), in.x.cols(), x.Row(r));
    std::copy_n(in.ids.Row(from), in.ids.cols(), ids.Row(r));
    std::copy_n(in.weights.Row(from), in.weights.cols(), weights.Row(r));
  }
  op(ExpertsArgs{x.view(), ids.view(), weights.view(), model.experts(), model.count(), 4.0F, 25.0F,
                 out.view()});
  return out;
}
Matrix<float> RunSet(const Model& model, const Inputs& in, const std::vector<int>& rows,
                     const CpuOps& ops, int threads) {
  return Run(model, in, rows, [&](const ExpertsArgs& a) { RunCpu(ops.experts, a, threads); });
}
Matrix<float> RunRef(const Model& model, const Inputs& in, const std::vector<int>& rows) {
  return Run(model, in, rows, [](const ExpertsArgs& a) { ref::Experts(a); });
}

std::vector<int> FirstRows(int count) {
  std::vector<int> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// Kills: nibbles swapped, a scale off by one or of the neighbouring group, w1 and w3 exchanged,
// SwiGLU, weights of the wrong slot, an expert left out, activations rounded to int8.
TEST(Experts, EverySetIsCloseToReference) {
  Random random(3);
  const Model model(7, 96, 160, random);
  const Inputs in(13, model, 3, random);
  const Matrix<float> want = RunRef(model, in, FirstRows(13));
  for (const CpuOps* ops : AllCpuSets())
    for (int threads : {1, 2})
      ExpectNear(RunSet(model, in, FirstRows(13), *ops, threads), want, 6e-4, 3e-4, ops->isa);
}

// Kills: bits that depend on the other rows of the step (expert groups, tile edges), on threads or
// on the instruction set.
TEST(Experts, BitsDependOnTheRowAlone) {
  Random random(LawSeed(4));
  const Model model(6, 64, 96, random);
  const Inputs in(40, model, 3, random);
  const std::vector<const CpuOps*> sets = AllCpuSets();
  const Matrix<float> all = RunSet(model, in, FirstRows(40), *sets[0], 1);
  for (int round = 0; round < 60; ++round) {
    std::vector<int> rows;
    for (int i = random.Below(round % 2 == 0 ? 3 : 30); i >= 0; --i)
      rows.push_back(random.Below(40));
    const CpuOps& ops = *sets[static_cast<std::size_t>(round) % sets.size()];
    const Matrix<float> got = RunSet(model, in, rows, ops, 1 + random.Below(2));
    for (std::size_t r = 0; r < rows.size(); ++r)
      ExpectSameBits(got.RowSpan(static_cast<std::int64_t>(r)), all.RowSpan(rows[r]), ops.isa);
  }
}

// One dot in the documented arithmetic, plainly.
float PlainDot(const Mxfp4Weight& weight, std::int64_t row, const std::vector<float>& x) {
  float acc = 0;
  for (std::size_t g = 0; g < x.size() / 32; ++g) {
    float amax = 0;
    for (std::size_t i = 0; i < 32; ++i) amax = std::max(amax, std::fabs(x[32 * g + i]));
    const float scale = amax / 32512.0F;
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < 32 && scale > 0; ++i) {
      const int byte = weight.packed.Row<std::uint8_t>(row)[16 * g + i / 2];
      const int nibble = i % 2 == 0 ? byte & 15 : byte >> 4;
      sum += kTwiceE2m1[nibble] * static_cast<int>(std::nearbyint(x[32 * g + i] / scale));
    }
    const float half = 0.5F * E8m0ToFloat(weight.scale.Row<std::uint8_t>(row)[g]);
    acc = std::fma(static_cast<float>(sum), half * scale, acc);
  }
  return acc;
}

// situ(W1 x, W3 x); the SiTU itself goes through linear's gated segment, which has the same lanes.
std::vector<float> PlainInner(const ExpertWeights& expert, const std::vector<float>& x,
                              const CpuOps& ops) {
  const std::int64_t width = expert.w1.packed.rows;
  Matrix<float> pairs(width, 2), situ(width, 1);
  for (std::int64_t n = 0; n < width; ++n) {
    pairs.At(n, 0) = PlainDot(expert.w1, n, x);
    pairs.At(n, 1) = PlainDot(expert.w3, n, x);
  }
  Matrix<Bf16> first(1, 2), second(1, 2);
  first.At(0, 0) = second.At(0, 1) = ToBf16(1.0F);
  const LinearSegment segment{first.view(), second.view(), situ.view(), false};
  RunCpu(ops.linear, LinearArgs{pairs.view(), {}, 0, 4.0F, 25.0F, &segment, 1});
  return {situ.span().begin(), situ.span().end()};
}

// Kills: another rounding of activations, another order of groups, digits that saturate (largest
// weights against largest inputs), scale byte 0 taken for zero, a group of zeros that divides by 0.
TEST(Experts, TheArithmeticIsTheDocumentedOne) {
  Random random(8);
  Model model(1, 64, 64, random);
  for (std::size_t c = 0; c < 32; ++c) {
    model.weight(0, 2).packed.At(3, static_cast<std::int64_t>(c)) = c < 16 ? 0x77 : 0xff;
    model.weight(0, 2).packed.At(4, static_cast<std::int64_t>(c)) = 0xf7;
  }
  model.weight(0, 2).scale.At(5, 0) = 0;
  model.weight(0, 2).scale.At(5, 1) = 1;
  Inputs in(4, model, 1, random);
  for (float& w : in.weights.span()) w = 1.0F;
  for (int c = 0; c < 32; ++c) in.x.At(1, c) = 0;
  for (int c = 0; c < 64; ++c) in.x.At(2, c) = c % 2 == 0 ? 3.0F : -3.0F;
  for (const CpuOps* ops : AllCpuSets()) {
    const Matrix<float> got = RunSet(model, in, FirstRows(4), *ops, 1);
    for (int r = 0; r < 4; ++r) {
      const std::vector<float> x(in.x.Row(r), in.x.Row(r) + 64);
      const std::vector<float> inner = PlainInner(model.experts()[0], x, *ops);
      for (std::int64_t n = 0; n < 64; ++n)
        EXPECT_EQ(got.At(r, n), PlainDot(model.experts()[0].w2, n, inner)) << ops->isa << " " << n;
    }
  }
}

// Kills: a NaN that the quantisation turns into a number, and one that reaches other rows.
TEST(Experts, ADamagedRowStaysDamagedAndAlone) {
  Random random(9);
  const Model model(4, 64, 32, random);
  Inputs in(5, model, 2, random);
  const Matrix<float> want = RunRef(model, in, FirstRows(5));
  in.x.At(2, 33) = NAN;
  in.x.At(4, 1) = INFINITY;
  for (const CpuOps* ops : AllCpuSets()) {
    const Matrix<float> got = RunSet(model, in, FirstRows(5), *ops, 2);
    for (float value : got.RowSpan(2)) EXPECT_TRUE(std::isnan(value));
    for (float value : got.RowSpan(4)) EXPECT_TRUE(std::isnan(value));
    for (int r : {0, 1, 3}) ExpectNear(got.RowSpan(r), want.RowSpan(r), 6e-4, 3e-4, ops->isa);
  }
}

// Kills: an id beyond the table read as an expert.
TEST(ExpertsDeathTest, RefusesIdsOutsideTheTable) {
  Random random(10);
  const Model model(2, 32, 32, random);
  Inputs in(1, model, 1, random);
  in.ids.At(0, 0) = 2;
  EXPECT_DEATH(RunRef(model, in, {0}), "CHECK failed");
  EXPECT_DEATH(RunSet(model, in, {0}, BestCpuSet(), 1), "CHECK failed");
}

// An expert whose only inner value is situ(4, 1), in column `col`: so the output is that times one
// column of w2.
std::vector<float> ColumnOf(const Mxfp4Weight& w2, std::int64_t col, const CpuOps* ops) {
  const std::int64_t latent = w2.packed.rows;
  const std::int64_t width = w2.scale.cols * kMxfp4Group;
  OwnedWeight w1(width, latent), w3(width, latent);
  for (std::uint8_t& scale : w1.scale.span()) scale = 127;
  for (std::uint8_t& scale : w3.scale.span()) scale = 127;
  w1.packed.At(col, 0) = 6;  // column 0: 4
  w3.packed.At(col, 0) = 2;  // column 0: 1
  const ExpertWeights expert{w1.view(), w3.view(), w2};
  Matrix<float> x(1, latent), weights(1, 1), out(1, latent);
  Matrix<std::int32_t> ids(1, 1);
  x.At(0, 0) = weights.At(0, 0) = 1.0F;
  const ExpertsArgs args{x.view(), ids.view(), weights.view(), &expert, 1, 4.0F, 25.0F, out.view()};
  if (ops == nullptr) {
    ref::Experts(args);
  } else {
    RunCpu(ops->experts, args);
  }
  return {out.Row(0), out.Row(0) + latent};
}

// Kills: nibbles swapped (in `ref` and `cpu` alike), a lost sign, scale byte 0 taken for zero, an
// exponent bias that is off, groups along the wrong dimension.
TEST(Experts, DequantiseGoldenWeights) {
  const auto golden = GoldenFile::OpenShared("vectors/ops.safetensors");
  if (!golden) return;
  const auto packed = golden->Read<std::uint8_t>("mxfp4.weight_packed");
  const auto scale = golden->Read<std::uint8_t>("mxfp4.weight_scale");
  const auto want = golden->Read<double>("mxfp4.out");
  OwnedWeight w2(32, want.cols());  // the golden 16 rows, then 16 of zeros
  std::copy(packed.span().begin(), packed.span().end(), w2.packed.Row(0));
  std::copy(scale.span().begin(), scale.span().end(), w2.scale.Row(0));
  const double inner = 4 * std::tanh(1.0) / (1 + std::exp(-4.0)) * 25 * std::tanh(1.0 / 25);
  std::vector<const CpuOps*> sets = AllCpuSets();
  sets.push_back(nullptr);
  for (const CpuOps* ops : sets) {
    for (std::int64_t c = 0; c < want.cols(); ++c) {
      const std::vector<float> got = ColumnOf(w2.view(), c, ops);
      std::vector<float> exact(got.size());
      for (std::int64_t n = 0; n < want.rows(); ++n)
        exact[static_cast<std::size_t>(n)] = static_cast<float>(inner * want.At(n, c));
      // On cpu the factor of scale byte 0 and an activation scale is subnormal, hence coarse.
      ExpectNear(got, exact, 1e-39, 1e-6, ops == nullptr ? "ref" : ops->isa);
    }
  }
}

// Kills: sizes that only work when small: real latent and expert widths, experts without a row.
TEST(Experts, RealWidths) {
  Random random(12);
  const Model model(3, 3584, 3072, random);
  Inputs in(2, model, 1, random);
  in.ids.At(0, 0) = 0;
  in.ids.At(1, 0) = 2;
  const Matrix<float> want = RunRef(model, in, FirstRows(2));
  const Matrix<float> got = RunSet(model, in, FirstRows(2), BestCpuSet(), 2);
  double rms = 0;
  for (float value : want.span()) rms += double(value) * value;
  rms = std::sqrt(rms / static_cast<double>(want.span().size()));
  EXPECT_LT(MaxError(got.span(), want.span()), 1e-3 * rms);
  std::printf("largest error %.2e of the rms %.3f\n", MaxError(got.span(), want.span()) / rms, rms);
}

}  // namespace
}  // namespace k3::kernels
