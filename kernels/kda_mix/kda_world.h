// A page pool, windows and contexts around kda_mix, for its tests: everything nobody may read is
// NaN, so a program that reads it shows.
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/kda_mix/kda_mix.h"
#include "kernels/testing/buffer.h"
#include "kernels/testing/random.h"

namespace k3::kernels {

struct KdaWeights {
  KdaWeights(int heads_in, int dim_in, Random& random)
      : heads(heads_in),
        dim(dim_in),
        q_conv(heads * dim, kConvTaps),
        k_conv(heads * dim, kConvTaps),
        v_conv(heads * dim, kConvTaps),
        a_log(1, heads),
        dt_bias(1, heads * dim),
        o_norm(1, dim) {
    for (Matrix<float>* taps : {&q_conv, &k_conv, &v_conv}) random.FillNormal(taps->span(), 0.5F);
    random.FillNormal(a_log.span(), 0.7F);
    random.FillNormal(dt_bias.span(), 0.5F, -1.5F);
    random.FillNormal(o_norm.span(), 0.2F, 1.0F);
  }

  int heads, dim;
  Matrix<float> q_conv, k_conv, v_conv, a_log, dt_bias, o_norm;
  float lower_bound = -5.0F;
  float eps = 1e-2F;  // large, so that the scale of o shows through the norm
};

// All tokens of one context.
struct KdaStream {
  KdaStream(const KdaWeights& w, int tokens, Random& random)
      : q(tokens, w.heads * w.dim),
        k(tokens, w.heads * w.dim),
        v(tokens, w.heads * w.dim),
        z(tokens, w.heads * w.dim),
        gate(tokens, w.heads * w.dim),
        beta(tokens, w.heads) {
    for (Matrix<float>* m : {&q, &k, &v, &z, &gate, &beta}) random.FillNormal(m->span());
  }
  Matrix<float> q, k, v, z, gate, beta;
};

using KdaOp = std::function<void(const KdaMixArgs&)>;
using Pages = std::vector<std::int32_t>;

struct KdaContext {
  const KdaStream* stream = nullptr;
  int slot = 0;
  int position = 0;
  Pages source, target;
  Pages owned;                         // every page it took
  std::unique_ptr<Matrix<float>> out;  // [tokens][heads * dim]
};

struct KdaExport {
  int run;
  int position;
  Pages pages;
};

struct KdaRun {
  KdaContext* context;
  int rows;
};

class KdaWorld {
 public:
  static constexpr int kLayer = 1;  // of 2: a program that ignores the layer fails

  KdaWorld(const KdaWeights& weights, KdaOp op, std::int64_t window_bytes, int slots = 4,
           int states = 12)
      : weights_(weights),
        op_(std::move(op)),
        layout_(LayoutFor(weights)),
        window_bytes_(window_bytes + 64),
        pool_(layout_.page_bytes * layout_.state_pages * states),
        windows_(window_bytes_ * slots) {
    Poison(pool_);
    Poison(windows_);
    free_.resize(static_cast<std::size_t>(layout_.state_pages) * static_cast<std::size_t>(states));
    std::iota(free_.rbegin(), free_.rend(), 0);
  }

  static PageLayout LayoutFor(const KdaWeights& w) {
    // A page of a little more than two units: heads are spread unevenly over pages.
    const int unit = (w.dim * w.dim + 3 * kTailRows * w.dim) * 4;
    return MakePageLayout({.mla_layers = 1,
                           .latent_width = unit * 5 / 2 / 64 / 16 * 16,
                           .latent_dtype = DType::kF32,
                           .kda_layers = 2,
                           .kda_heads = w.heads,
                           .kda_head_dim = w.dim});
  }

  const PageLayout& layout() const { return layout_; }

  Pages NewState(bool zeroed) {
    Pages pages;
    for (int i = 0; i < layout_.state_pages; ++i) {
      K3_CHECK(!free_.empty());
      pages.push_back(free_.back());
      free_.pop_back();
      std::memset(Page(pages.back()), zeroed ? 0 : 0xff,
                  static_cast<std::size_t>(layout_.page_bytes));
    }
    return pages;
  }
  void Free(const KdaContext& context) {
    free_.insert(free_.end(), context.owned.begin(), context.owned.end());
  }

  // A context at position 0, or at a snapshot taken at `position`. In place: one state for both.
  KdaContext Start(const KdaStream& stream, int slot, bool in_place = false) {
    const Pages zero = NewState(true);
    KdaContext context = Restore(stream, slot, 0, zero);
    context.owned.insert(context.owned.end(), zero.begin(), zero.end());
    if (in_place) context.target = zero;
    return context;
  }
  KdaContext Restore(const KdaStream& stream, int slot, int position, const Pages& snapshot) {
    const Pages target = NewState(false);
    return {&stream,
            slot,
            position,
            snapshot,
            target,
            target,
            std::make_unique<Matrix<float>>(stream.q.rows(), stream.q.cols())};
  }
  void PoisonSlot(int slot) {
    std::memset(windows_.data() + slot * window_bytes_, 0xff,
                static_cast<std::size_t>(window_bytes_));
  }

  // S and tails of this layer's heads.
  std::vector<float> State(const Pages& pages) const {
    std::vector<float> all;
    for (int head = 0; head < weights_.heads; ++head) {
      const auto* unit = reinterpret_cast<const float*>(
          Page(pages[static_cast<std::size_t>(layout_.UnitPage(kLayer, head))]) +
          layout_.UnitOffset(head));
      all.insert(all.end(), unit, unit + layout_.unit_bytes / 4);
    }
    return all;
  }
  std::vector<std::byte> Bytes(const Pages& pages) const {
    std::vector<std::byte> all;
    for (const std::int32_t page : pages)
      all.insert(all.end(), Page(page), Page(page) + layout_.page_bytes);
    return all;
  }

  void Step(const std::vector<KdaRun>& runs, const std::vector<KdaExport>& exports = {});

 private:
  static void Poison(const Buffer<std::byte>& buffer) {
    std::memset(buffer.data(), 0xff, static_cast<std::size_t>(buffer.size()));
  }
  std::byte* Page(std::int32_t page) const { return pool_.data() + page * layout_.page_bytes; }

  const KdaWeights& weights_;
  KdaOp op_;
  PageLayout layout_;
  std::int64_t window_bytes_;
  Buffer<std::byte> pool_;
  Buffer<std::byte> windows_;
  Pages free_;
};

// Rows of a step are copied together from the streams, as a forward would have them.
inline Matrix<float> GatherRows(const std::vector<KdaRun>& runs, Matrix<float> KdaStream::*field) {
  std::int64_t rows = 0;
  for (const KdaRun& run : runs) rows += run.rows;
  Matrix<float> all(rows, (runs[0].context->stream->*field).cols());
  std::int64_t at = 0;
  for (const KdaRun& run : runs)
    for (int i = 0; i < run.rows; ++i)
      std::memcpy(all.Row(at++), (run.context->stream->*field).Row(run.context->position + i),
                  static_cast<std::size_t>(all.cols()) * 4);
  return all;
}

// The arrays a BatchView points at.
struct KdaBatch {
  KdaBatch(const std::vector<KdaRun>& runs, const std::vector<KdaExport>& exports,
           const PageLayout& layout) {
    for (const KdaRun& run : runs) {
      first.push_back(first.back() + run.rows);
      position.push_back(run.context->position);
      slot.push_back(run.context->slot);
      source.insert(source.end(), run.context->source.begin(), run.context->source.end());
      target.insert(target.end(), run.context->target.begin(), run.context->target.end());
    }
    for (const KdaExport& e : exports) {
      export_run.push_back(e.run);
      export_position.push_back(e.position);
      export_pages.insert(export_pages.end(), e.pages.begin(), e.pages.end());
    }
    view.rows = first.back();
    view.runs = static_cast<int>(runs.size());
    view.run_first_row = first.data();
    view.run_position = position.data();
    view.run_slot = slot.data();
    view.state_source = source.data();
    view.state_target = target.data();
    view.state_pages = layout.state_pages;
    view.exports = static_cast<int>(exports.size());
    view.export_run = export_run.data();
    view.export_position = export_position.data();
    view.export_pages = export_pages.data();
  }

  std::vector<std::int32_t> first = {0}, position, slot, export_run, export_position;
  Pages source, target, export_pages;
  BatchView view;
};

inline void KdaWorld::Step(const std::vector<KdaRun>& runs, const std::vector<KdaExport>& exports) {
  const KdaBatch batch(runs, exports, layout_);
  const Matrix<float> q = GatherRows(runs, &KdaStream::q), k = GatherRows(runs, &KdaStream::k);
  const Matrix<float> v = GatherRows(runs, &KdaStream::v), z = GatherRows(runs, &KdaStream::z);
  const Matrix<float> gate = GatherRows(runs, &KdaStream::gate);
  const Matrix<float> beta = GatherRows(runs, &KdaStream::beta);
  const Matrix<float> out(q.rows(), q.cols());
  op_({.batch = &batch.view,
       .layout = &layout_,
       .pages = pool_.data(),
       .window = windows_.data(),
       .window_slot_bytes = window_bytes_,
       .layer = kLayer,
       .q = q.view(),
       .k = k.view(),
       .v = v.view(),
       .z = z.view(),
       .beta = beta.view(),
       .gate = gate.view(),
       .q_conv = weights_.q_conv.view(),
       .k_conv = weights_.k_conv.view(),
       .v_conv = weights_.v_conv.view(),
       .a_log = weights_.a_log.view(),
       .dt_bias = weights_.dt_bias.view(),
       .o_norm = weights_.o_norm.view(),
       .lower_bound = weights_.lower_bound,
       .eps = weights_.eps,
       .out = out.view()});
  std::int64_t row = 0;
  for (const KdaRun& run : runs) {
    KdaContext& context = *run.context;
    for (int i = 0; i < run.rows; ++i)
      std::memcpy(context.out->Row(context.position + i), out.Row(row++),
                  static_cast<std::size_t>(out.cols()) * 4);
    const int before = context.position / kGridTokens;
    context.position += run.rows;
    if (context.position / kGridTokens > before) context.source = context.target;
  }
}

}  // namespace k3::kernels
