// Plain recurrence in double. The window keeps each row's raw inputs; a call replays them from S at
// the grid, so a row is the same numbers in the same order however its context was cut into runs.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/kda_mix/kda_mix.h"
#include "kernels/ref_ops.h"

namespace k3::kernels::ref {
namespace {

constexpr int kInputs = 3;  // q, k, v: the order in tails
constexpr double kNormEps = 1e-6;

// One row of one head before anything is computed from it.
struct RawRow {
  const float* inputs[kInputs];
  const float* z;
  float beta;
};

// A window row: q, k, v, z of one head, then its beta logit.
std::int64_t WindowRowFloats(std::int64_t dim) {
  return (kInputs + 1) * dim + 1;
}

double Sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

class HeadRun {
 public:
  HeadRun(const KdaMixArgs& args, int run, int head)
      : args_(args),
        run_(run),
        head_(head),
        dim_(args.layout->geometry.kda_head_dim),
        target_(Unit(args.batch->state_target + Pages())),
        state_(static_cast<std::size_t>(dim_ * dim_)),
        tail_(static_cast<std::size_t>(dim_ * kTailRows * kInputs)) {
    Load(Unit(args.batch->state_source + Pages()));
  }

  void Compute() {
    const BatchView& batch = *args_.batch;
    int position = batch.run_position[run_];
    for (int i = 0; i < position % kGridTokens; ++i) Step(WindowRow(i));
    for (int row = batch.run_first_row[run_]; row < batch.run_first_row[run_ + 1]; ++row) {
      const RawRow raw = NewRow(row);
      Finish(Step(raw), row);
      Keep(raw, position % kGridTokens);
      if (++position % kGridTokens == 0) Fold(position);
    }
  }

 private:
  std::int64_t Pages() const { return std::int64_t{run_} * args_.batch->state_pages; }

  float* Unit(const std::int32_t* pages) const {
    const PageLayout& layout = *args_.layout;
    const std::int64_t page = pages[layout.UnitPage(args_.layer, head_)];
    return reinterpret_cast<float*>(args_.pages + page * layout.page_bytes +
                                    layout.UnitOffset(head_));
  }

  void Load(const float* unit) {
    std::copy(unit, unit + state_.size(), state_.begin());
    std::copy(unit + state_.size(), unit + state_.size() + tail_.size(), tail_.begin());
  }

  float* Window(int i) const {
    std::byte* slot = args_.window + args_.batch->run_slot[run_] * args_.window_slot_bytes;
    return reinterpret_cast<float*>(slot) +
           (std::int64_t{head_} * (kGridTokens - 1) + i) * WindowRowFloats(dim_);
  }

  RawRow WindowRow(int i) const {
    const float* row = Window(i);
    return {{row, row + dim_, row + 2 * dim_}, row + kInputs * dim_, row[(kInputs + 1) * dim_]};
  }

  RawRow NewRow(int row) const {
    const std::int64_t channel = head_ * dim_;
    return {{args_.q.Row<float>(row) + channel, args_.k.Row<float>(row) + channel,
             args_.v.Row<float>(row) + channel},
            args_.z.Row<float>(row) + channel,
            args_.beta.Row<float>(row)[head_]};
  }

  // The 16th row is folded at once and needs no place.
  void Keep(const RawRow& raw, int i) {
    if (i == kGridTokens - 1) return;
    float* row = Window(i);
    for (int which = 0; which < kInputs; ++which)
      std::copy_n(raw.inputs[which], dim_, row + which * dim_);
    std::copy_n(raw.z, dim_, row + kInputs * dim_);
    row[(kInputs + 1) * dim_] = raw.beta;
  }

  // Convolution and SiLU of one input; the tail moves on by this row.
  std::vector<double> Convolve(const RawRow& raw, int which) {
    const ConstTensor* weights[kInputs] = {&args_.q_conv, &args_.k_conv, &args_.v_conv};
    std::vector<double> out(static_cast<std::size_t>(dim_));
    for (std::int64_t c = 0; c < dim_; ++c) {
      const float* tap = weights[which]->Row<float>(head_ * dim_ + c);
      double sum = static_cast<double>(tap[kTailRows]) * raw.inputs[which][c];
      for (int j = 0; j < kTailRows; ++j) sum += static_cast<double>(tap[j]) * Tail(j, which)[c];
      for (int j = 0; j + 1 < kTailRows; ++j) Tail(j, which)[c] = Tail(j + 1, which)[c];
      Tail(kTailRows - 1, which)[c] = raw.inputs[which][c];
      out[static_cast<std::size_t>(c)] = sum * Sigmoid(sum);
    }
    return out;
  }

  float* Tail(int j, int which) { return tail_.data() + (j * kInputs + which) * dim_; }

  static void Normalise(std::vector<double>& x, double scale) {
    double sum = 0;
    for (const double value : x) sum += value * value;
    for (double& value : x) value = value / std::sqrt(sum + kNormEps) * scale;
  }

  // One step of the recurrence; the row's o.
  std::vector<double> Step(const RawRow& raw) {
    std::vector<double> q = Convolve(raw, 0);
    std::vector<double> k = Convolve(raw, 1);
    const std::vector<double> v = Convolve(raw, 2);
    Normalise(q, 1.0 / std::sqrt(static_cast<double>(dim_)));
    Normalise(k, 1.0);
    Decay(raw.z);
    const double beta = Sigmoid(raw.beta);
    const auto dim = static_cast<std::size_t>(dim_);
    std::vector<double> seen(dim), out(dim);
    for (std::size_t r = 0; r < dim; ++r)
      for (std::size_t c = 0; c < dim; ++c) seen[c] += k[r] * state_[r * dim + c];
    for (std::size_t r = 0; r < dim; ++r) {
      for (std::size_t c = 0; c < dim; ++c) {
        state_[r * dim + c] += k[r] * beta * (v[c] - seen[c]);
        out[c] += q[r] * state_[r * dim + c];
      }
    }
    return out;
  }

  void Decay(const float* z) {
    const double sharpness = std::exp(static_cast<double>(args_.a_log.Row<float>(0)[head_]));
    const float* bias = args_.dt_bias.Row<float>(0) + head_ * dim_;
    for (std::int64_t r = 0; r < dim_; ++r) {
      const double logit = static_cast<double>(z[r]) + bias[r];
      const double kept = std::exp(args_.lower_bound * Sigmoid(sharpness * logit));
      for (std::int64_t c = 0; c < dim_; ++c)
        state_[static_cast<std::size_t>(r * dim_ + c)] *= kept;
    }
  }

  void Finish(const std::vector<double>& o, int row) {
    double sum = 0;
    for (const double value : o) sum += value * value;
    const double rms = std::sqrt(sum / static_cast<double>(dim_) + args_.eps);
    const float* gate = args_.gate.Row<float>(row) + head_ * dim_;
    float* out = args_.out.Row<float>(row) + head_ * dim_;
    for (std::int64_t c = 0; c < dim_; ++c)
      out[c] = static_cast<float>(o[static_cast<std::size_t>(c)] / rms *
                                  args_.o_norm.Row<float>(0)[c] * Sigmoid(gate[c]));
  }

  // Rounds S to what is stored and goes on from that; exports what was asked for here.
  void Fold(int position) {
    Store(target_);
    Load(target_);
    const BatchView& batch = *args_.batch;
    for (int e = 0; e < batch.exports; ++e)
      if (batch.export_run[e] == run_ && batch.export_position[e] == position)
        Store(Unit(batch.export_pages + std::int64_t{e} * batch.state_pages));
  }

  void Store(float* unit) const {
    for (std::size_t i = 0; i < state_.size(); ++i) unit[i] = static_cast<float>(state_[i]);
    std::copy(tail_.begin(), tail_.end(), unit + state_.size());
  }

  const KdaMixArgs& args_;
  const int run_;
  const int head_;
  const std::int64_t dim_;
  float* const target_;
  std::vector<double> state_;  // S, [key][value]
  std::vector<float> tail_;    // the last three raw rows, [3][q, k, v][dim], oldest first
};

}  // namespace

std::int64_t KdaWindowBytes(const PageLayout& layout) {
  return std::int64_t{layout.geometry.kda_heads} * (kGridTokens - 1) *
         WindowRowFloats(layout.geometry.kda_head_dim) * SizeOf(DType::kF32);
}

void KdaMix(const KdaMixArgs& args) {
  for (int run = 0; run < args.batch->runs; ++run)
    for (int head = 0; head < args.layout->geometry.kda_heads; ++head)
      HeadRun(args, run, head).Compute();
}

}  // namespace k3::kernels::ref
