// Contexts, latent pages and an oracle around mla_attend, for its tests. Every byte of a page that
// no row was stored in is NaN.
#pragma once
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "kernels/mla_attend/mla_attend.h"
#include "kernels/testing/buffer.h"
#include "kernels/testing/random.h"

namespace k3::kernels {

struct MlaShape {
  int heads, nope, rope, v, kv;
  int width() const { return kv + rope; }
};

struct MlaWeights {
  MlaWeights(MlaShape s, Random& random)
      : shape(s), kv_norm(1, s.kv), kv_b(std::int64_t{s.heads} * (s.nope + s.v), s.kv) {
    random.FillNormal(kv_norm.span(), 0.3F, 1.0F);
    random.FillNormal(kv_b.span(), 1.5F / std::sqrt(static_cast<float>(s.kv)));
  }
  MlaShape shape;
  Matrix<Bf16> kv_norm, kv_b;
  float eps = 1e-3F;  // large, so that a forgotten one shows
};

struct MlaStream {
  MlaStream(const MlaShape& s, int tokens, Random& random)
      : q(tokens, std::int64_t{s.heads} * (s.nope + s.rope)),
        kv_a(tokens, s.width()),
        gate(tokens, std::int64_t{s.heads} * s.v) {
    random.FillNormal(q.span());
    random.FillNormal(kv_a.span(), 0.5F);
    random.FillNormal(gate.span());
  }
  MlaStream Copy() const {
    MlaStream copy(*this, q.rows());
    for (Matrix<float> MlaStream::*field : {&MlaStream::q, &MlaStream::kv_a, &MlaStream::gate})
      std::memcpy((copy.*field).Row(0), (this->*field).Row(0), (this->*field).span().size_bytes());
    return copy;
  }

  Matrix<float> q, kv_a, gate;

 private:
  MlaStream(const MlaStream& like, std::int64_t tokens)
      : q(tokens, like.q.cols()), kv_a(tokens, like.kv_a.cols()), gate(tokens, like.gate.cols()) {}
};

using MlaOp = std::function<void(const MlaAttendArgs&)>;

struct MlaContext {
  const MlaStream* stream;
  int position;
  std::vector<std::int32_t> blocks;
  Matrix<float> out;
  int first = 0;  // position of the stream's first token
};

struct MlaRun {
  MlaContext* context;
  int rows;
};

class MlaWorld {
 public:
  static constexpr int kLayer = 1;  // of 2

  MlaWorld(const MlaWeights& weights, MlaOp op, DType dtype, int blocks)
      : weights_(weights),
        op_(std::move(op)),
        layout_(MakePageLayout({2, weights.shape.width(), dtype, 1, 1, 16})),
        pool_(layout_.page_bytes * blocks),
        free_(static_cast<std::size_t>(blocks)) {
    std::memset(pool_.data(), 0xff, static_cast<std::size_t>(pool_.size()));
    // Pages of a context are neither neighbours nor in order.
    std::iota(free_.begin(), free_.end(), 0);
    Random random(5);
    for (std::size_t i = free_.size(); i > 1; --i)
      std::swap(free_[i - 1], free_[static_cast<std::size_t>(random.Below(static_cast<int>(i)))]);
  }

  MlaContext Start(const MlaStream& stream) {
    const auto tokens = static_cast<int>(stream.q.rows());
    MlaContext context{&stream, 0, {}, Matrix<float>(tokens, stream.gate.cols())};
    for (int i = 0; i < tokens; i += kGridTokens) {
      K3_CHECK(!free_.empty());
      context.blocks.push_back(free_.back());
      free_.pop_back();
    }
    return context;
  }

  // For benches: rows of `stream` at `position`, behind a context of zeros.
  MlaContext StartAt(const MlaStream& stream, int position) {
    MlaContext context = Start(stream);
    std::memset(pool_.data(), 0, static_cast<std::size_t>(pool_.size()));
    while (static_cast<int>(context.blocks.size()) * kGridTokens < position + stream.q.rows()) {
      context.blocks.push_back(free_.back());
      free_.pop_back();
    }
    context.position = position;
    context.first = position;
    return context;
  }
  // The same rows once more.
  void Again(MlaContext& context, int rows) {
    context.position = context.first;
    Step({{&context, rows}});
  }

  void Step(const std::vector<MlaRun>& runs);

 private:
  const MlaWeights& weights_;
  MlaOp op_;
  PageLayout layout_;
  Buffer<std::byte> pool_;
  std::vector<std::int32_t> free_;
};

inline Matrix<float> GatherRows(const std::vector<MlaRun>& runs, Matrix<float> MlaStream::*field) {
  std::int64_t rows = 0;
  for (const MlaRun& run : runs) rows += run.rows;
  Matrix<float> all(rows, (runs[0].context->stream->*field).cols());
  std::int64_t at = 0;
  for (const MlaRun& run : runs)
    for (int i = 0; i < run.rows; ++i)
      std::memcpy(all.Row(at++),
                  (run.context->stream->*field).Row(run.context->position - run.context->first + i),
                  static_cast<std::size_t>(all.cols()) * sizeof(float));
  return all;
}

inline void MlaWorld::Step(const std::vector<MlaRun>& runs) {
  std::size_t stride = 0;
  for (const MlaRun& run : runs) stride = std::max(stride, run.context->blocks.size());
  std::vector<std::int32_t> first = {0}, position, pages;
  for (const MlaRun& run : runs) {
    first.push_back(first.back() + run.rows);
    position.push_back(run.context->position);
    pages.insert(pages.end(), run.context->blocks.begin(), run.context->blocks.end());
    pages.resize(position.size() * stride, -1);
  }
  BatchView batch;
  batch.rows = first.back();
  batch.runs = static_cast<int>(runs.size());
  batch.run_first_row = first.data();
  batch.run_position = position.data();
  batch.latent_pages = pages.data();
  batch.latent_stride = static_cast<int>(stride);
  const Matrix<float> q = GatherRows(runs, &MlaStream::q),
                      kv_a = GatherRows(runs, &MlaStream::kv_a);
  const Matrix<float> gate = GatherRows(runs, &MlaStream::gate), out(gate.rows(), gate.cols());
  const MlaShape& shape = weights_.shape;
  op_({.batch = &batch,
       .layout = &layout_,
       .pages = pool_.data(),
       .layer = kLayer,
       .heads = shape.heads,
       .nope_dim = shape.nope,
       .rope_dim = shape.rope,
       .v_dim = shape.v,
       .kv_rank = shape.kv,
       .q = q.view(),
       .kv_a = kv_a.view(),
       .kv_norm = weights_.kv_norm.view(),
       .kv_norm_eps = weights_.eps,
       .kv_b = weights_.kv_b.view(),
       .gate = gate.view(),
       .out = out.view()});
  std::int64_t row = 0;
  for (const MlaRun& run : runs) {
    for (int i = 0; i < run.rows; ++i)
      std::memcpy(run.context->out.Row(run.context->position++ - run.context->first),
                  out.Row(row++), static_cast<std::size_t>(out.cols()) * sizeof(float));
  }
}

enum class MlaMistake {
  kNone,
  kScaleOfNopeAlone,
  kScaleOfLatentWidth,
  kPlainDimsDropped,
  kPlainDimsNormed,
  kCausalOneTooFew,
  kCausalOneTooMany,
  kEpsForgotten,
  kGateForgotten,
  kValueRowsOfKey,
};

// Expanded, not absorbed: keys and values of every row, then ordinary attention, in double.
class MlaOracle {
 public:
  MlaOracle(const MlaWeights& weights, const MlaStream& stream, DType dtype, MlaMistake mistake)
      : w_(weights), stream_(stream), mistake_(mistake), rows_(stream.q.rows(), w_.shape.width()) {
    for (int t = 0; t < rows_.rows(); ++t) MakeRow(t, dtype);
  }

  Matrix<float> Run() const {
    Matrix<float> out(stream_.gate.rows(), stream_.gate.cols());
    for (int t = 0; t < out.rows(); ++t)
      for (int h = 0; h < w_.shape.heads; ++h) Row(t, h, out.Row(t) + h * w_.shape.v);
    return out;
  }

 private:
  bool Is(MlaMistake mistake) const { return mistake_ == mistake; }

  void MakeRow(int t, DType dtype) {
    double sum = 0;
    const float* raw = stream_.kv_a.Row(t);
    for (int c = 0; c < w_.shape.kv; ++c) sum += static_cast<double>(raw[c]) * raw[c];
    const double eps = Is(MlaMistake::kEpsForgotten) ? 0 : w_.eps;
    const double rms = std::sqrt(sum / w_.shape.kv + eps);
    for (int c = 0; c < w_.shape.width(); ++c) {
      double value = raw[c];
      if (c < w_.shape.kv) value *= ToFloat(w_.kv_norm.At(0, c));
      if (c < w_.shape.kv || Is(MlaMistake::kPlainDimsNormed)) value /= rms;
      const auto stored = static_cast<float>(value);
      rows_.At(t, c) = dtype == DType::kBf16 ? ToFloat(ToBf16(stored)) : stored;
    }
  }

  double Project(int head, int row, const float* latent) const {
    const Bf16* weight = w_.kv_b.Row(head * (w_.shape.nope + w_.shape.v) + row);
    double sum = 0;
    for (int c = 0; c < w_.shape.kv; ++c)
      sum += static_cast<double>(ToFloat(weight[c])) * latent[c];
    return sum;
  }

  double Scale() const {
    if (Is(MlaMistake::kScaleOfNopeAlone)) return 1 / std::sqrt(w_.shape.nope);
    if (Is(MlaMistake::kScaleOfLatentWidth)) return 1 / std::sqrt(w_.shape.width());
    return 1 / std::sqrt(w_.shape.nope + w_.shape.rope);
  }

  double Score(int t, int head, int s) const {
    const float* q = stream_.q.Row(t) + head * (w_.shape.nope + w_.shape.rope);
    double sum = 0;
    for (int d = 0; d < w_.shape.nope; ++d) sum += q[d] * Project(head, d, rows_.Row(s));
    if (Is(MlaMistake::kPlainDimsDropped)) return sum * Scale();
    for (int d = 0; d < w_.shape.rope; ++d)
      sum += static_cast<double>(q[w_.shape.nope + d]) * rows_.At(s, w_.shape.kv + d);
    return sum * Scale();
  }

  void Row(int t, int head, float* out) const {
    int visible = t + 1;
    if (Is(MlaMistake::kCausalOneTooFew)) visible = std::max(1, t);
    if (Is(MlaMistake::kCausalOneTooMany))
      visible = std::min(t + 2, static_cast<int>(rows_.rows()));
    std::vector<double> sum(static_cast<std::size_t>(w_.shape.v));
    double total = 0;
    const int value = Is(MlaMistake::kValueRowsOfKey) ? 0 : w_.shape.nope;
    for (int s = 0; s < visible; ++s) {
      const double p = std::exp(Score(t, head, s));
      total += p;
      for (int n = 0; n < w_.shape.v; ++n)
        sum[static_cast<std::size_t>(n)] += p * Project(head, value + n, rows_.Row(s));
    }
    for (int n = 0; n < w_.shape.v; ++n) {
      const double logit = stream_.gate.At(t, head * w_.shape.v + n);
      const double gate = Is(MlaMistake::kGateForgotten) ? 1 : 1 / (1 + std::exp(-logit));
      out[n] = static_cast<float>(sum[static_cast<std::size_t>(n)] / total * gate);
    }
  }

  const MlaWeights& w_;
  const MlaStream& stream_;
  const MlaMistake mistake_;
  Matrix<float> rows_;
};

}  // namespace k3::kernels
