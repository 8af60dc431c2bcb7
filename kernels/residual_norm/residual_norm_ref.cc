#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref_ops.h"

namespace k3::kernels::ref {
namespace {

double WeightAt(const ConstTensor& weight, std::int64_t c) {
  return weight.dtype == DType::kBf16 ? ToFloat(weight.Row<Bf16>(0)[c]) : weight.Row<float>(0)[c];
}

double RootMeanSquare(const double* x, std::int64_t count, double eps) {
  double sum = 0;
  for (std::int64_t c = 0; c < count; ++c) sum += x[c] * x[c];
  return std::sqrt(sum / static_cast<double>(count) + eps);
}

double Score(const float* source, const float* score, std::int64_t count, double eps) {
  double squares = 0;
  double dot = 0;
  for (std::int64_t c = 0; c < count; ++c) {
    squares += static_cast<double>(source[c]) * source[c];
    dot += static_cast<double>(score[c]) * source[c];
  }
  return dot / std::sqrt(squares / static_cast<double>(count) + eps);
}

std::vector<double> Softmax(std::vector<double> values) {
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (double& value : values) {
    value = std::exp(value - largest);
    sum += value;
  }
  for (double& value : values) value /= sum;
  return values;
}

std::vector<double> Probabilities(const ResidualNormArgs& args, std::int64_t row) {
  if (args.num_sources == 1) return {1.0};
  std::vector<double> scores;
  scores.reserve(static_cast<std::size_t>(args.num_sources));
  for (int i = 0; i < args.num_sources; ++i) {
    scores.push_back(
        Score(args.sources[i].Row<float>(row), args.score.Row<float>(0), args.out.cols, args.eps));
  }
  return Softmax(scores);
}

}  // namespace

void ResidualNorm(const ResidualNormArgs& args) {
  const std::int64_t count = args.out.cols;
  std::vector<double> mix(static_cast<std::size_t>(count));
  for (std::int64_t t = 0; t < args.out.rows; ++t) {
    const std::int64_t row = args.gather == nullptr ? t : args.gather[t];
    const std::vector<double> p = Probabilities(args, row);
    std::fill(mix.begin(), mix.end(), 0.0);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const float* source = args.sources[i].Row<float>(row);
      for (std::int64_t c = 0; c < count; ++c) mix[static_cast<std::size_t>(c)] += p[i] * source[c];
    }
    const double rms = RootMeanSquare(mix.data(), count, args.eps);
    for (std::int64_t c = 0; c < count; ++c) {
      const double value = mix[static_cast<std::size_t>(c)];
      if (!args.mix.empty()) args.mix.Row<float>(t)[c] = static_cast<float>(value);
      args.out.Row<float>(t)[c] = static_cast<float>(value / rms * WeightAt(args.weight, c));
    }
  }
}

}  // namespace k3::kernels::ref
