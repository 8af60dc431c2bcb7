#include <cmath>
#include <vector>

#include "kernels/ref_ops.h"

namespace k3::kernels::ref {
namespace {

// Four sums side by side: one chain of double adds would leave the CPU waiting.
double Dot(const Bf16* w, const double* x, std::int64_t count) {
  double sum[4] = {};
  std::int64_t k = 0;
  for (; k + 4 <= count; k += 4)
    for (int j = 0; j < 4; ++j) sum[j] += static_cast<double>(ToFloat(w[k + j])) * x[k + j];
  for (; k < count; ++k) sum[0] += static_cast<double>(ToFloat(w[k])) * x[k];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

std::vector<double> Input(const LinearArgs& args, std::int64_t t) {
  const float* row = args.x.Row<float>(t);
  std::vector<double> x(row, row + args.x.cols);
  if (args.norm_weight.empty()) return x;
  double sum = 0;
  for (double value : x) sum += value * value;
  const double rms = std::sqrt(sum / static_cast<double>(args.x.cols) + args.norm_eps);
  const Bf16* weight = args.norm_weight.Row<Bf16>(0);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = x[k] / rms * ToFloat(weight[k]);
  return x;
}

double Situ(double g, double u, double beta, double linear_beta) {
  const double gate = beta * std::tanh(g / beta) / (1.0 + std::exp(-g));
  return gate * linear_beta * std::tanh(u / linear_beta);
}

void RunSegment(const LinearArgs& args, const LinearSegment& segment, std::int64_t t,
                const std::vector<double>& x) {
  float* out = segment.out.Row<float>(t);
  for (std::int64_t n = 0; n < segment.weight.rows; ++n) {
    double y = Dot(segment.weight.Row<Bf16>(n), x.data(), args.x.cols);
    if (!segment.up_weight.empty()) {
      const double up = Dot(segment.up_weight.Row<Bf16>(n), x.data(), args.x.cols);
      y = Situ(y, up, args.situ_beta, args.situ_linear_beta);
    }
    out[n] = static_cast<float>(segment.accumulate ? out[n] + y : y);
  }
}

}  // namespace

void Linear(const LinearArgs& args) {
  for (std::int64_t t = 0; t < args.x.rows; ++t) {
    const std::vector<double> x = Input(args, t);
    for (int i = 0; i < args.num_segments; ++i) RunSegment(args, args.segments[i], t, x);
  }
}

}  // namespace k3::kernels::ref
