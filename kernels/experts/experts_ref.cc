#include <cmath>
#include <vector>

#include "kernels/ref_ops.h"

namespace k3::kernels::ref {
namespace {

// One output: weights dequantised exactly, activations as they are.
double Dot(const Mxfp4Weight& weight, std::int64_t row, const std::vector<double>& x) {
  const std::uint8_t* packed = weight.packed.Row<std::uint8_t>(row);
  const std::uint8_t* scale = weight.scale.Row<std::uint8_t>(row);
  double total = 0;
  for (std::int64_t g = 0; g < weight.scale.cols; ++g) {
    const double* in = x.data() + g * kMxfp4Group;
    double even = 0;
    double odd = 0;
    for (std::int64_t j = 0; j < kMxfp4Group / 2; ++j) {
      const int byte = packed[g * kMxfp4Group / 2 + j];
      even += kTwiceE2m1[byte & 15] * in[2 * j];
      odd += kTwiceE2m1[byte >> 4] * in[2 * j + 1];
    }
    total += 0.5 * static_cast<double>(E8m0ToFloat(scale[g])) * (even + odd);
  }
  return total;
}

double Situ(double g, double u, double beta, double linear_beta) {
  const double gate = beta * std::tanh(g / beta) / (1.0 + std::exp(-g));
  return gate * linear_beta * std::tanh(u / linear_beta);
}

void AddExpert(const ExpertsArgs& args, const ExpertWeights& expert, const std::vector<double>& x,
               double weight, std::vector<double>& sum) {
  std::vector<double> inner(static_cast<std::size_t>(expert.w1.packed.rows));
  for (std::size_t n = 0; n < inner.size(); ++n) {
    const auto row = static_cast<std::int64_t>(n);
    inner[n] =
        Situ(Dot(expert.w1, row, x), Dot(expert.w3, row, x), args.situ_beta, args.situ_linear_beta);
  }
  for (std::size_t n = 0; n < sum.size(); ++n)
    sum[n] += weight * Dot(expert.w2, static_cast<std::int64_t>(n), inner);
}

}  // namespace

void Experts(const ExpertsArgs& args) {
  for (std::int64_t t = 0; t < args.x.rows; ++t) {
    const float* row = args.x.Row<float>(t);
    const std::vector<double> x(row, row + args.x.cols);
    std::vector<double> sum(x.size());
    for (std::int64_t j = 0; j < args.ids.cols; ++j) {
      const std::int32_t id = args.ids.Row<std::int32_t>(t)[j];
      K3_CHECK(id >= 0);
      K3_CHECK(id < args.num_experts);
      AddExpert(args, args.experts[id], x, args.weights.Row<float>(t)[j], sum);
    }
    for (std::size_t c = 0; c < sum.size(); ++c)
      args.out.Row<float>(t)[c] = static_cast<float>(sum[c]);
  }
}

}  // namespace k3::kernels::ref
