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

struct Shape {
  std::int64_t k;
  std::int64_t plain;  // outputs of a plain segment
  std::int64_t added;  // outputs of a plain segment that accumulates
  std::int64_t gated;  // outputs of a gated segment
  bool norm;
};

// One op call: three segments of one input, as a layer would merge them.
class Problem {
 public:
  Problem(const Shape& shape, std::int64_t rows, std::uint64_t seed)
      : shape_(shape),
        x_(rows, shape.k),
        norm_(1, shape.k),
        plain_(shape.plain, shape.k),
        added_(shape.added, shape.k),
        gate_(shape.gated, shape.k),
        up_(shape.gated, shape.k),
        before_(rows, shape.added) {
    Random random(seed);
    random.FillNormal(x_.span());
    random.FillNormal(norm_.span(), 0.3F, 1.0F);
    const float deviation = 1.0F / std::sqrt(static_cast<float>(shape.k));
    for (Matrix<Bf16>* weight : {&plain_, &added_, &gate_, &up_})
      random.FillNormal(weight->span(), 2 * deviation);
    random.FillNormal(before_.span());
  }

  // All outputs of the chosen rows, one result row per chosen row: plain | added | gated.
  template <typename Op>
  Matrix<float> Run(const std::vector<int>& rows, const Op& op) const {
    const auto count = static_cast<std::int64_t>(rows.size());
    Matrix<float> x(count, shape_.k), plain(count, shape_.plain), added(count, shape_.added),
        gated(count, shape_.gated);
    for (std::int64_t r = 0; r < count; ++r) {
      const int from = rows[static_cast<std::size_t>(r)];
      std::copy_n(x_.Row(from), shape_.k, x.Row(r));
      std::copy_n(before_.Row(from), shape_.added, added.Row(r));
    }
    const std::vector<LinearSegment> segments = {{plain_.view(), {}, plain.view(), false},
                                                 {added_.view(), {}, added.view(), true},
                                                 {gate_.view(), up_.view(), gated.view(), false}};
    LinearArgs args{x.view(), {}, 1e-5F, 4.0F, 25.0F, segments.data(), 3};
    if (shape_.norm) args.norm_weight = norm_.view();
    op(args);
    Matrix<float> all(count, shape_.plain + shape_.added + shape_.gated);
    for (std::int64_t r = 0; r < count; ++r) {
      float* to = std::copy_n(plain.Row(r), shape_.plain, all.Row(r));
      to = std::copy_n(added.Row(r), shape_.added, to);
      std::copy_n(gated.Row(r), shape_.gated, to);
    }
    return all;
  }
  Matrix<float> RunSet(const std::vector<int>& rows, const CpuOps& ops, int threads) const {
    return Run(rows, [&](const LinearArgs& args) { RunCpu(ops.linear, args, threads); });
  }
  Matrix<float> RunRef(const std::vector<int>& rows) const {
    return Run(rows, [](const LinearArgs& args) { ref::Linear(args); });
  }
  Matrix<float>& x() { return x_; }
  const Matrix<Bf16>& plain() const { return plain_; }

 private:
  Shape shape_;
  Matrix<float> x_;
  Matrix<Bf16> norm_, plain_, added_, gate_, up_;
  Matrix<float> before_;
};

std::vector<int> FirstRows(int count) {
  std::vector<int> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

void ExpectRowsOf(const Matrix<float>& all, const std::vector<int>& rows, const Matrix<float>& got,
                  const std::string& what) {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    ExpectSameBits(got.RowSpan(static_cast<std::int64_t>(r)), all.RowSpan(rows[r]),
                   what + ", row " + std::to_string(rows[r]));
  }
}

constexpr Shape kShapes[] = {{37, 5, 1, 3, true},
                             {96, 17, 16, 33, false},
                             {64, 24, 25, 31, true},
                             {200, 48, 7, 16, false},
                             {1000, 30, 20, 40, true}};

// Kills: SwiGLU instead of SiTU, the sigmoid of the capped gate, gate and up exchanged, eps outside
// the root, gamma twice or forgotten, a mean over rows, accumulate forgotten (or where it was not
// asked), lost tails of K and of N, segments mixed up.
TEST(Linear, EverySetIsCloseToReference) {
  for (const Shape& shape : kShapes) {
    Problem problem(shape, 9, 7);
    for (std::int64_t c = 0; c < shape.k; ++c) {
      problem.x().At(2, c) *= 1e-3F;  // eps matters
      problem.x().At(3, c) *= 30.0F;  // gates far beyond the caps
    }
    const Matrix<float> want = problem.RunRef(FirstRows(9));
    for (const CpuOps* ops : AllCpuSets()) {
      for (int rows : {1, 3, 9}) {
        const Matrix<float> got = problem.RunSet(FirstRows(rows), *ops, 2);
        ExpectNear(got.span(), want.span().first(got.span().size()), 2e-5, 4e-6,
                   std::string(ops->isa) + " K=" + std::to_string(shape.k));
      }
    }
  }
}

void ExpectFirstRows(const Problem& problem, const Matrix<float>& all, const CpuOps& ops,
                     int rows) {
  for (int threads : {1, 2}) {
    const std::string what =
        std::string(ops.isa) + " M=" + std::to_string(rows) + " threads=" + std::to_string(threads);
    ExpectRowsOf(all, FirstRows(rows), problem.RunSet(FirstRows(rows), ops, threads), what);
  }
}

// Kills: an order of sums that depends on the number of rows, on the tile's edge, on threads or on
// the instruction set.
TEST(Linear, BitsDependOnTheRowAlone) {
  for (const Shape& shape : kShapes) {
    const Problem problem(shape, 70, 11);
    const Matrix<float> all = problem.RunSet(FirstRows(64), *AllCpuSets()[0], 1);
    for (const CpuOps* ops : AllCpuSets())
      for (int rows : {1, 2, 4, 5, 7, 8, 9, 15, 16, 17, 64})
        ExpectFirstRows(problem, all, *ops, rows);
  }
}

// Kills: the same for real widths and 512 rows (several row blocks), on the set this machine serves
// with.
TEST(Linear, BitsAtRealWidths) {
  const Problem problem({7168, 50, 8, 24, true}, 512, 3);
  const Matrix<float> all = problem.RunSet(FirstRows(512), BestCpuSet(), 2);
  for (int rows : {1, 7, 16, 64}) {
    ExpectRowsOf(all, FirstRows(rows), problem.RunSet(FirstRows(rows), BestCpuSet(), 1),
                 "M=" + std::to_string(rows));
  }
  ExpectNear(problem.RunSet({511}, BestCpuSet(), 1), problem.RunRef({511}), 1e-4, 1e-5, "7168");
}

// Kills: rows that see their neighbours: any subset in any order gives each row its own bits.
TEST(Linear, AnyRowsInAnyOrder) {
  Random random(LawSeed(5));
  const Problem problem(kShapes[4], 40, random.Next());
  const std::vector<const CpuOps*> sets = AllCpuSets();
  const Matrix<float> all = problem.RunSet(FirstRows(40), BestCpuSet(), 1);
  for (int round = 0; round < 30; ++round) {
    std::vector<int> rows;
    for (int i = random.Below(30); i >= 0; --i) rows.push_back(random.Below(40));
    const CpuOps& ops =
        *sets[static_cast<std::size_t>(random.Below(static_cast<int>(sets.size())))];
    ExpectRowsOf(all, rows, problem.RunSet(rows, ops, 1 + random.Below(2)), ops.isa);
  }
}

// The documented order, with zeros up to a whole step of 64.
float DotInOrder(const float* x, const Bf16* w, std::int64_t count) {
  float sum[4][16] = {};
  for (std::int64_t k = 0; k < (count + 63) / 64 * 64; ++k) {
    float& lane = sum[k / 16 % 4][k % 16];
    lane = k < count ? std::fma(ToFloat(w[k]), x[k], lane) : std::fma(0.0F, 0.0F, lane);
  }
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = (sum[0][i] + sum[1][i]) + (sum[2][i] + sum[3][i]);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

// Kills: an order that is the same everywhere but not the documented one.
TEST(Linear, TheOrderIsTheDocumentedOne) {
  for (std::int64_t k : {1, 37, 96, 128, 1000}) {
    Problem problem({k, 26, 1, 1, false}, 6, 13);
    for (int rows : {1, 6}) {
      const Matrix<float> got = problem.RunSet(FirstRows(rows), BestCpuSet(), 1);
      for (int r = 0; r < rows; ++r)
        for (std::int64_t n = 0; n < 26; ++n)
          EXPECT_EQ(got.At(r, n), DotInOrder(problem.x().Row(r), problem.plain().Row(n), k));
    }
  }
}

// Kills: a row stride taken for the width (x, weights and outputs are views into wider memory), and
// writes beside the output.
TEST(Linear, HonoursStrides) {
  Random random(21);
  Matrix<float> x(6, 80), out(6, 40), want(6, 30), dense(6, 70);
  Matrix<Bf16> w(30, 90), w_dense(30, 70);
  random.FillNormal(x.span());
  random.FillNormal(w.span());
  for (float& value : out.span()) value = 5;
  for (int r = 0; r < 6; ++r) std::copy_n(x.Row(r), 70, dense.Row(r));
  for (int n = 0; n < 30; ++n) std::copy_n(w.Row(n), 70, w_dense.Row(n));
  for (std::int64_t rows : {3, 6}) {
    const LinearSegment wide = {
        {w.Row(0), DType::kBf16, 30, 70, 90}, {}, {out.Row(0), DType::kF32, rows, 30, 40}, false};
    const LinearSegment narrow = {w_dense.view(), {}, View(want.Row(0), rows, 30), false};
    LinearArgs args{{x.Row(0), DType::kF32, rows, 70, 80}, {}, 0, 0, 0, &wide, 1};
    RunCpu(BestCpuSet().linear, args, 2);
    args = {View(dense.Row(0), rows, 70), {}, 0, 0, 0, &narrow, 1};
    RunCpu(BestCpuSet().linear, args, 2);
    for (std::int64_t r = 0; r < rows; ++r) {
      ExpectSameBits(out.RowSpan(r).first(30), want.RowSpan(r), "row " + std::to_string(r));
      for (int c = 30; c < 40; ++c) EXPECT_EQ(out.At(r, c), 5.0F);
    }
  }
}

// Kills: a NaN or infinity of one row that spreads to others, or vanishes in the gate.
TEST(Linear, ADamagedRowStaysAlone) {
  const Shape shape{96, 20, 4, 20, false};
  Problem healthy(shape, 8, 17), damaged(shape, 8, 17);
  damaged.x().At(5, 95) = NAN;
  const Matrix<float> want = healthy.RunSet(FirstRows(8), BestCpuSet(), 2);
  const Matrix<float> got = damaged.RunSet(FirstRows(8), BestCpuSet(), 2);
  for (int r = 0; r < 8; ++r) {
    if (r != 5) ExpectSameBits(got.RowSpan(r), want.RowSpan(r), "row " + std::to_string(r));
  }
  for (float value : got.RowSpan(5)) EXPECT_TRUE(std::isnan(value));
}

// A gated segment whose weights are 1: the grid of golden SiTU values goes through it.
Matrix<float> SituOf(const CpuOps& ops, const Matrix<float>& gate, const Matrix<float>& up) {
  const auto count = static_cast<std::int64_t>(gate.span().size());
  Matrix<float> x(count, 2), out(count, 1);
  for (std::int64_t i = 0; i < count; ++i) {
    x.At(i, 0) = gate.span()[static_cast<std::size_t>(i)];
    x.At(i, 1) = up.span()[static_cast<std::size_t>(i)];
  }
  Matrix<Bf16> first(1, 2), second(1, 2);
  first.At(0, 0) = ToBf16(1.0F);
  second.At(0, 1) = ToBf16(1.0F);
  const LinearSegment segment{first.view(), second.view(), out.view(), false};
  const LinearArgs args{x.view(), {}, 0, 4.0F, 25.0F, &segment, 1};
  RunCpu(ops.linear, args);
  return out;
}

// Kills: SwiGLU, caps exchanged (4 and 25), the sigmoid of the capped gate, tanh lost near zero.
TEST(Linear, SituMatchesGolden) {
  const auto golden = GoldenFile::OpenShared("vectors/ops.safetensors");
  if (!golden) return;
  const auto gate = golden->Read<float>("situ.gate");
  const auto up = golden->Read<float>("situ.up");
  const auto want = golden->Read<float>("situ.out");
  for (const CpuOps* ops : AllCpuSets())
    ExpectNear(SituOf(*ops, gate, up).span(), want.span(), 1e-6, 1e-5, ops->isa);
}

}  // namespace
}  // namespace k3::kernels
