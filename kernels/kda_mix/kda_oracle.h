// The recurrence of kda_mix.h in double, from the first token of a context on, with neither grid
// nor window nor pages: for tests. It can also be wrong in named ways: a test whose inputs do not
// tell such a program from the right one is too kind.
#pragma once
#include <cmath>
#include <vector>

#include "kernels/kda_mix/kda_world.h"

namespace k3::kernels {

enum class KdaMistake {
  kNone,
  kReadBeforeUpdate,
  kUndecayedDelta,
  kNoQueryScale,
  kQueryScaleTwice,
  kDecayPerChannel,
  kSoftplusGate,
  kReversedTaps,
  kTailLostAtChunk,
  kFoldOfFifteen,
  kNormEpsOnMean,
  kGateBeforeNorm,
};

class KdaOracle {
 public:
  KdaOracle(const KdaWeights& weights, const KdaStream& stream, KdaMistake mistake)
      : w_(weights), stream_(stream), mistake_(mistake) {}

  // Rows of all heads, [tokens][heads * dim], and the heads' states after `tokens`.
  struct Result {
    Matrix<float> out;
    Matrix<float> state;  // [heads * dim][dim]
  };
  Result Run(int tokens) {
    Result result{Matrix<float>(tokens, w_.heads * w_.dim),
                  Matrix<float>(std::int64_t{w_.heads} * w_.dim, w_.dim)};
    for (int head = 0; head < w_.heads; ++head) {
      state_.assign(Size(w_.dim * w_.dim), 0.0);
      for (int t = 0; t < tokens; ++t) Token(head, t, result.out.Row(t) + head * w_.dim);
      for (int r = 0; r < w_.dim; ++r)
        for (int c = 0; c < w_.dim; ++c)
          result.state.At(head * w_.dim + r, c) = static_cast<float>(S(r, c));
    }
    return result;
  }

 private:
  static std::size_t Size(int n) { return static_cast<std::size_t>(n); }
  static double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
  bool Is(KdaMistake mistake) const { return mistake_ == mistake; }
  double& S(int r, int c) { return state_[Size(r * w_.dim + c)]; }

  std::vector<double> Conv(const Matrix<float>& input, const Matrix<float>& taps, int t,
                           int channel) const {
    std::vector<double> out(Size(w_.dim));
    for (int c = 0; c < w_.dim; ++c) {
      double sum = 0;
      for (int j = 0; j < kConvTaps; ++j) {
        const int from = t - kTailRows + j;
        if (from < 0) continue;
        if (Is(KdaMistake::kTailLostAtChunk) && from / kGridTokens != t / kGridTokens) continue;
        const int tap = Is(KdaMistake::kReversedTaps) ? kTailRows - j : j;
        sum += static_cast<double>(input.At(from, channel + c)) * taps.At(channel + c, tap);
      }
      out[Size(c)] = sum * Sigmoid(sum);
    }
    return out;
  }

  void Normalise(std::vector<double>& x, double scale) const {
    double sum = 0;
    for (const double value : x) sum += value * value;
    if (Is(KdaMistake::kNormEpsOnMean)) sum += 1e-6 * w_.dim;
    for (double& value : x) value = value / std::sqrt(sum + 1e-6) * scale;
  }

  double Decay(int head, int t, int c) const {
    const int channel = head * w_.dim + c;
    const double logit = static_cast<double>(stream_.z.At(t, channel)) + w_.dt_bias.At(0, channel);
    const int which = Is(KdaMistake::kDecayPerChannel) ? c % w_.heads : head;
    const double sharpness = std::exp(static_cast<double>(w_.a_log.At(0, which)));
    if (Is(KdaMistake::kSoftplusGate))
      return std::max(-5.0, -sharpness * std::log1p(std::exp(logit)));
    return w_.lower_bound * Sigmoid(sharpness * logit);
  }

  double QueryScale() const {
    if (Is(KdaMistake::kNoQueryScale)) return 1.0;
    const double scale = 1.0 / std::sqrt(static_cast<double>(w_.dim));
    return Is(KdaMistake::kQueryScaleTwice) ? scale * scale : scale;
  }

  void Token(int head, int t, float* out) {
    const int channel = head * w_.dim;
    std::vector<double> q = Conv(stream_.q, w_.q_conv, t, channel);
    std::vector<double> k = Conv(stream_.k, w_.k_conv, t, channel);
    const std::vector<double> v = Conv(stream_.v, w_.v_conv, t, channel);
    Normalise(q, QueryScale());
    Normalise(k, 1.0);
    const std::vector<double> o = Step(head, t, {q, k, v});
    Finish(o, t, channel, out);
  }

  struct Row {
    const std::vector<double>&q, &k, &v;
  };

  std::vector<double> Read(const std::vector<double>& x) {
    std::vector<double> out(Size(w_.dim));
    for (int r = 0; r < w_.dim; ++r)
      for (int c = 0; c < w_.dim; ++c) out[Size(c)] += x[Size(r)] * S(r, c);
    return out;
  }

  std::vector<double> Step(int head, int t, const Row& row) {
    std::vector<double> seen = Read(row.k);
    for (int r = 0; r < w_.dim; ++r)
      for (int c = 0; c < w_.dim; ++c) S(r, c) *= std::exp(Decay(head, t, r));
    if (!Is(KdaMistake::kUndecayedDelta)) seen = Read(row.k);
    const std::vector<double> early = Read(row.q);
    const double beta = Sigmoid(stream_.beta.At(t, head));
    const bool forgotten = Is(KdaMistake::kFoldOfFifteen) && t % kGridTokens == kGridTokens - 1;
    const std::vector<double> before = state_;
    for (int r = 0; r < w_.dim; ++r)
      for (int c = 0; c < w_.dim; ++c)
        S(r, c) += row.k[Size(r)] * beta * (row.v[Size(c)] - seen[Size(c)]);
    std::vector<double> out = Is(KdaMistake::kReadBeforeUpdate) ? early : Read(row.q);
    if (forgotten) state_ = before;
    return out;
  }

  void Finish(const std::vector<double>& o, int t, int channel, float* out) const {
    double sum = 0;
    for (int c = 0; c < w_.dim; ++c) {
      const double gate = Sigmoid(stream_.gate.At(t, channel + c));
      const double value = o[Size(c)] * (Is(KdaMistake::kGateBeforeNorm) ? gate : 1.0);
      sum += value * value;
    }
    const double rms = std::sqrt(sum / w_.dim + w_.eps);
    for (int c = 0; c < w_.dim; ++c)
      out[c] = static_cast<float>(o[Size(c)] / rms * w_.o_norm.At(0, c) *
                                  Sigmoid(stream_.gate.At(t, channel + c)));
  }

  const KdaWeights& w_;
  const KdaStream& stream_;
  const KdaMistake mistake_;
  std::vector<double> state_;
};

}  // namespace k3::kernels
