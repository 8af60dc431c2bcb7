#include "runtime/model/model.h"

#include <utility>

#include "runtime/model/activations.h"

namespace k3::runtime {

using kernels::BatchView;
using kernels::LinearSegment;

namespace {

// Columns 0..cols-1 of a wider working tensor, dense: rows are `cols` apart.
Tensor Narrow(Tensor tensor, std::int64_t cols, int rows) {
  K3_CHECK(cols <= tensor.cols);
  tensor = Head(tensor, rows);
  tensor.cols = cols;
  tensor.stride = cols;
  return tensor;
}

}  // namespace

struct Model::Impl {
  const ModelConfig& config;
  const TextWeights& weights;
  kernels::Backend& backend;
  kernels::PageLayout layout;
  ModelOptions options;
  Activations act;
  kernels::Memory windows;  // [KDA layer][slot][window]
  std::int64_t window_bytes = 0;
  std::vector<std::int32_t> no_load;  // zeros, as large as act.expert_load

  // The step at hand.
  const BatchView* batch = nullptr;
  std::byte* pages = nullptr;
  const Tap* tap = nullptr;
  int snapshots = 0;     // entries of B in act.residual; the running sum P follows them
  bool has_sum = false;  // false: P is empty, the next sublayer's output becomes it
  int kda_layer = 0, mla_layer = 0;

  int rows() const { return batch->rows; }
  Tensor Sum() { return Head(act.residual[static_cast<std::size_t>(snapshots)], rows()); }
  void Show(std::string_view op, int layer, Tensor value) const {
    if (*tap) (*tap)(op, layer, value);
  }

  void MixAndNorm(const MixerWeights& mixer, ConstTensor norm, Tensor out);
  void AddToSum(ConstTensor x, ConstTensor weight, ConstTensor norm = {});
  void Attention(const LayerWeights& layer, int index);
  void Kda(const KdaWeights& weights, int index);
  void Mla(const MlaWeights& weights, int index);
  void FeedForward(const LayerWeights& layer, int index);
  void Dense(const MlpWeights& weights);
  void LatentMoe(const MoeWeights& weights, int index);
  Tensor Logits();
};

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

Result<std::unique_ptr<Model>> Model::Create(const ModelConfig& config, const TextWeights& weights,
                                             kernels::Backend& backend,
                                             const kernels::PageLayout& layout,
                                             const ModelOptions& options) {
  Result<Activations> activations = Activations::Create(config, options, backend);
  if (!activations.ok()) return activations.error();
  const std::int64_t window_bytes = backend.KdaWindowBytes(layout);
  const std::int64_t all = window_bytes * layout.geometry.kda_layers * options.num_slots;
  Result<kernels::Memory> windows = backend.Allocate(static_cast<std::size_t>(all));
  if (!windows.ok()) return windows.error();
  const auto load_cells = static_cast<std::size_t>(config.num_hidden_layers) *
                          static_cast<std::size_t>(config.moe.num_experts);
  return std::unique_ptr<Model>(
      new Model(std::make_unique<Impl>(Impl{.config = config,
                                            .weights = weights,
                                            .backend = backend,
                                            .layout = layout,
                                            .options = options,
                                            .act = std::move(activations).value(),
                                            .windows = std::move(windows).value(),
                                            .window_bytes = window_bytes,
                                            .no_load = std::vector<std::int32_t>(load_cells)})));
}

Tensor Model::Forward(const BatchView& batch, std::byte* pages, const Tap& tap) {
  Impl& m = *impl_;
  K3_CHECK(batch.rows <= m.options.max_rows);
  K3_CHECK(batch.logit_rows <= m.options.max_logit_rows);
  m.backend.Upload(reinterpret_cast<std::byte*>(m.act.expert_load.Row<std::int32_t>(0)),
                   m.no_load.data(), m.no_load.size() * sizeof(std::int32_t));
  m.batch = &batch;
  m.pages = pages;
  m.tap = &tap;
  m.snapshots = m.kda_layer = m.mla_layer = 0;

  m.backend.Embed({.ids = batch.tokens, .table = m.weights.embed, .out = m.Sum()});
  m.has_sum = true;
  for (int index = 0; index < m.config.num_hidden_layers; ++index) {
    const LayerWeights& layer = m.weights.layers[static_cast<std::size_t>(index)];
    m.MixAndNorm(layer.attention_mixer, layer.input_norm, Head(m.act.x, m.rows()));
    m.Show("attention_input", index, Head(m.act.x, m.rows()));
    if (index % m.config.attn_res_block_size == 0) {
      ++m.snapshots;  // the un-mixed sum becomes a snapshot where it stands
      m.has_sum = false;
    }
    m.Attention(layer, index);
    m.MixAndNorm(layer.mlp_mixer, layer.post_attention_norm, Head(m.act.x, m.rows()));
    m.Show("ffn_input", index, Head(m.act.x, m.rows()));
    m.FeedForward(layer, index);
    m.Show("sum", index, m.Sum());
  }
  return m.Logits();
}

ConstTensor Model::ExpertLoad() const {
  return impl_->act.expert_load;
}

// h = AttnRes(B, P), or P alone while B is empty; out = RMSNorm(h).
void Model::Impl::MixAndNorm(const MixerWeights& mixer, ConstTensor norm, Tensor out) {
  std::vector<Tensor>& residual = act.residual;
  K3_CHECK(has_sum);
  backend.ResidualNorm({.sources = residual.data(),
                        .num_sources = snapshots + 1,
                        .score = snapshots == 0 ? ConstTensor{} : mixer.score,
                        .weight = norm,
                        .eps = config.rms_norm_eps,
                        .out = out});
}

// P += n(x) W^T; the first sublayer of a block sets P.
void Model::Impl::AddToSum(ConstTensor x, ConstTensor weight, ConstTensor norm) {
  const LinearSegment segment{.weight = weight, .out = Sum(), .accumulate = has_sum};
  backend.Linear({.x = x,
                  .norm_weight = norm,
                  .norm_eps = config.rms_norm_eps,
                  .segments = &segment,
                  .num_segments = 1});
  has_sum = true;
}

void Model::Impl::Attention(const LayerWeights& layer, int index) {
  if (const auto* kda = std::get_if<KdaWeights>(&layer.attention)) {
    Kda(*kda, index);
  } else {
    Mla(std::get<MlaWeights>(layer.attention), index);
  }
}

void Model::Impl::Kda(const KdaWeights& w, int index) {
  const int width = config.kda.width();
  const Tensor q = Narrow(act.q, width, rows());
  const Tensor k = Head(act.k, rows()), v = Head(act.v, rows()), z = Head(act.z, rows());
  const Tensor gate = Narrow(act.gate, width, rows());
  const Tensor f_a = Head(act.f_a, rows()), beta = Head(act.beta, rows());
  const Tensor mixed = Narrow(act.mixed, width, rows());
  const LinearSegment projections[] = {
      {.weight = w.q_proj, .out = q},     {.weight = w.k_proj, .out = k},
      {.weight = w.v_proj, .out = v},     {.weight = w.g_proj, .out = gate},
      {.weight = w.f_a_proj, .out = f_a}, {.weight = w.b_proj, .out = beta}};
  backend.Linear({.x = Head(act.x, rows()), .segments = projections, .num_segments = 6});
  const LinearSegment decay{.weight = w.f_b_proj, .out = z};
  backend.Linear({.x = f_a, .segments = &decay, .num_segments = 1});
  Show("kda_q", index, q);
  Show("kda_z", index, z);
  backend.KdaMix({.batch = batch,
                  .layout = &layout,
                  .pages = pages,
                  .window = windows.data() + kda_layer * window_bytes * options.num_slots,
                  .window_slot_bytes = window_bytes,
                  .layer = kda_layer,
                  .q = q,
                  .k = k,
                  .v = v,
                  .z = z,
                  .beta = beta,
                  .gate = gate,
                  .q_conv = w.q_conv,
                  .k_conv = w.k_conv,
                  .v_conv = w.v_conv,
                  .a_log = w.a_log,
                  .dt_bias = w.dt_bias,
                  .o_norm = w.o_norm,
                  .lower_bound = config.kda.gate_lower_bound,
                  .eps = config.rms_norm_eps,
                  .out = mixed});
  ++kda_layer;
  Show("kda_mix", index, mixed);
  AddToSum(mixed, w.o_proj);
}

void Model::Impl::Mla(const MlaWeights& w, int index) {
  const auto& mla = config.mla;
  const int v_width = mla.num_heads * mla.v_head_dim;
  const Tensor q = Narrow(act.q, std::int64_t{mla.num_heads} * mla.q_head_dim(), rows());
  const Tensor q_a = Head(act.q_a, rows()), kv_a = Head(act.kv_a, rows());
  const Tensor gate = Narrow(act.gate, v_width, rows());
  const Tensor mixed = Narrow(act.mixed, v_width, rows());
  const LinearSegment projections[] = {{.weight = w.q_a_proj, .out = q_a},
                                       {.weight = w.kv_a_proj, .out = kv_a},
                                       {.weight = w.g_proj, .out = gate}};
  backend.Linear({.x = Head(act.x, rows()), .segments = projections, .num_segments = 3});
  const LinearSegment queries{.weight = w.q_b_proj, .out = q};
  backend.Linear({.x = q_a,
                  .norm_weight = w.q_a_norm,
                  .norm_eps = config.mla_latent_norm_eps,
                  .segments = &queries,
                  .num_segments = 1});
  Show("mla_q", index, q);
  Show("mla_kv_a", index, kv_a);
  backend.MlaAttend({.batch = batch,
                     .layout = &layout,
                     .pages = pages,
                     .layer = mla_layer,
                     .heads = mla.num_heads,
                     .nope_dim = mla.qk_nope_head_dim,
                     .rope_dim = mla.qk_rope_head_dim,
                     .v_dim = mla.v_head_dim,
                     .kv_rank = mla.kv_lora_rank,
                     .q = q,
                     .kv_a = kv_a,
                     .kv_norm = w.kv_a_norm,
                     .kv_norm_eps = config.mla_latent_norm_eps,
                     .kv_b = w.kv_b_proj,
                     .gate = gate,
                     .out = mixed});
  ++mla_layer;
  Show("mla_attend", index, mixed);
  AddToSum(mixed, w.o_proj);
}

void Model::Impl::FeedForward(const LayerWeights& layer, int index) {
  if (const auto* dense = std::get_if<MlpWeights>(&layer.ffn)) {
    Dense(*dense);
  } else {
    LatentMoe(std::get<MoeWeights>(layer.ffn), index);
  }
}

void Model::Impl::Dense(const MlpWeights& w) {
  const Tensor hidden = Narrow(act.ffn, config.intermediate_size, rows());
  const LinearSegment gated{.weight = w.gate_proj, .up_weight = w.up_proj, .out = hidden};
  backend.Linear({.x = Head(act.x, rows()),
                  .situ_beta = config.situ_beta,
                  .situ_linear_beta = config.situ_linear_beta,
                  .segments = &gated,
                  .num_segments = 1});
  AddToSum(hidden, w.down_proj);
}

void Model::Impl::LatentMoe(const MoeWeights& w, int index) {
  const Tensor router = Head(act.router, rows());
  const Tensor latent = Head(act.latent, rows()), routed = Head(act.routed, rows());
  const Tensor ids = Head(act.ids, rows()), slot_weights = Head(act.weights, rows());
  const Tensor shared = Narrow(act.ffn, config.moe.shared_width(), rows());
  const LinearSegment inputs[] = {
      {.weight = w.router, .out = router},
      {.weight = w.down_proj, .out = latent},
      {.weight = w.shared.gate_proj, .up_weight = w.shared.up_proj, .out = shared}};
  backend.Linear({.x = Head(act.x, rows()),
                  .situ_beta = config.situ_beta,
                  .situ_linear_beta = config.situ_linear_beta,
                  .segments = inputs,
                  .num_segments = 3});
  Show("router", index, router);
  backend.Route({.logits = router,
                 .bias = w.router_bias,
                 .renormalize = config.moe.renormalize,
                 .scaling = config.moe.routed_scaling_factor,
                 .ids = ids,
                 .weights = slot_weights,
                 .load = View(act.expert_load.Row<std::int32_t>(index), 1, router.cols)});
  Show("route_ids", index, ids);
  Show("route_weights", index, slot_weights);
  backend.Experts({.x = latent,
                   .ids = ids,
                   .weights = slot_weights,
                   .experts = w.experts.data(),
                   .num_experts = config.moe.num_experts,
                   .situ_beta = config.situ_beta,
                   .situ_linear_beta = config.situ_linear_beta,
                   .out = routed});
  Show("experts", index, routed);
  AddToSum(shared, w.shared.down_proj);
  AddToSum(routed, w.up_proj, w.norm);
}

Tensor Model::Impl::Logits() {
  const int n = batch->logit_rows;
  const int layer = config.num_hidden_layers;
  const Tensor head = Head(act.head, n), mix = Head(act.final_mix, n);
  const Tensor logits = Head(act.logits, n);
  if (n == 0) return logits;
  std::vector<Tensor>& residual = act.residual;
  backend.ResidualNorm({.sources = residual.data(),
                        .num_sources = snapshots + 1,
                        .score = weights.output_mixer.score,
                        .weight = weights.final_norm,
                        .eps = config.rms_norm_eps,
                        .gather = batch->logit_row,
                        .mix = mix,
                        .out = head});
  Show("final_mix", layer, mix);
  const LinearSegment vocabulary{.weight = weights.lm_head, .out = logits};
  backend.Linear({.x = head, .segments = &vocabulary, .num_segments = 1});
  Show("logits", layer, logits);
  return logits;
}

}  // namespace k3::runtime
