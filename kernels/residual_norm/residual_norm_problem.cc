#include "kernels/residual_norm/residual_norm_problem.h"

#include <cmath>
#include <cstddef>
#include <random>

namespace k3::kernels {
namespace {
constexpr float kEps = 1e-5F;
}  // namespace

ResidualNormProblem::ResidualNormProblem(int num_sources, int rows, int cols)
    : n(num_sources), t(rows), c(cols) {
  std::mt19937 random(static_cast<unsigned>(n * 1000 + c));
  std::normal_distribution<float> normal;
  for (int i = 0; i < n; ++i) {
    const float size = i == 0 ? 1e-3F : static_cast<float>(i);
    for (int k = 0; k < t * (c + 3); ++k) values.push_back(normal(random) * size);
  }
  for (const float value : values) halves.push_back(ToBf16(value));
  for (int k = 0; k < c; ++k) score.push_back(normal(random));
  for (int k = 0; k < c; ++k) weight.push_back(ToBf16(normal(random)));
  for (int r = 0; r < t; ++r) gather.push_back((r + 1) % t);
  for (int i = 0; i < n; ++i) {
    const std::ptrdiff_t at = std::ptrdiff_t{i} * t * (c + 3);
    const bool last = i == n - 1;
    void* data = last ? static_cast<void*>(values.data() + at) : halves.data() + at;
    sources.push_back({data, last ? DType::kF32 : DType::kBf16, t, c, c + 3});
  }
}

ResidualNormArgs ResidualNormProblem::Args(Tensor out) const {
  return {.sources = sources.data(),
          .num_sources = n,
          .score = n == 1 ? ConstTensor{} : View(score.data(), 1, c),
          .weight = View(weight.data(), 1, c),
          .eps = kEps,
          .gather = gather.data(),
          .mix = {},
          .out = out};
}

double ResidualNormProblem::Source(int i, int row, int k) const {
  const std::size_t at = (static_cast<std::size_t>(i) * t + row) * (c + 3) + k;
  return i == n - 1 ? values[at] : ToFloat(halves[at]);
}

// The header's formula in double, one row.
std::vector<double> ResidualNormProblem::Mix(int row) const {
  std::vector<double> p(n), m(c);
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    double squares = 0, dot = 0;
    for (int k = 0; k < c; ++k) squares += std::pow(Source(i, row, k), 2);
    for (int k = 0; k < c; ++k) dot += n == 1 ? 0 : score[k] * Source(i, row, k);
    p[i] = std::exp(dot / std::sqrt(squares / c + kEps));
    sum += p[i];
  }
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < c; ++k) m[k] += p[i] / sum * Source(i, row, k);
  }
  return m;
}

std::vector<double> ResidualNormProblem::Want(int row) const {
  std::vector<double> y = Mix(row);
  double squares = 0;
  for (const double value : y) squares += value * value;
  const double root = std::sqrt(squares / c + kEps);
  for (int k = 0; k < c; ++k) y[k] *= ToFloat(weight[k]) / root;
  return y;
}

int ResidualNormProblem::WrongValues(const std::vector<float>& got) const {
  int wrong = 0;
  for (int row = 0; row < t; ++row) {
    const std::vector<double> want = Want(gather[row]);
    for (int k = 0; k < c; ++k) {
      const double error = std::abs(got[row * c + k] - want[k]);
      wrong += error < 1e-5 * (1 + std::abs(want[k])) ? 0 : 1;
    }
  }
  return wrong;
}

}  // namespace k3::kernels
