#include "runtime/weights/tensor_table.h"

#include <utility>

namespace k3::runtime {
namespace {

// Adds specs under one prefix; a layer's helper functions below each add one part of it.
class Lister {
 public:
  Lister(const ModelConfig& config, std::vector<TensorSpec>& specs)
      : config_(config), specs_(specs) {}

  const ModelConfig& config() const { return config_; }

  void Under(std::string prefix, int shard) {
    prefix_ = std::move(prefix);
    shard_ = shard;
  }
  void Matrix(const char* name, std::int64_t rows, std::int64_t cols, ConstTensor& slot) {
    Add(name, DType::kBf16, ShapeRule::kMatrix, {rows, cols}, slot);
  }
  void Packed(const char* name, std::int64_t rows, std::int64_t cols, ConstTensor& slot) {
    Add(name, DType::kU8, ShapeRule::kMatrix, {rows, cols}, slot);
  }
  void Norm(const char* name, std::int64_t cols, ConstTensor& slot) {
    Add(name, DType::kBf16, ShapeRule::kVector, {1, cols}, slot);
  }
  void Float(const char* name, std::int64_t cols, ConstTensor& slot) {
    Add(name, DType::kF32, ShapeRule::kVector, {1, cols}, slot);
  }
  void Padded(const char* name, std::int64_t cols, ConstTensor& slot) {
    Add(name, DType::kF32, ShapeRule::kPadded, {1, cols}, slot);
  }
  void Conv(const char* name, std::int64_t rows, std::int64_t taps, ConstTensor& slot) {
    Add(name, DType::kF32, ShapeRule::kConv, {rows, taps}, slot);
  }
  void Mixer(const char* norm, const char* proj, MixerSource& mixer) {
    Norm(norm, config_.hidden_size, mixer.norm);
    Matrix(proj, 1, config_.hidden_size, mixer.proj);
  }

 private:
  struct Extent {
    std::int64_t rows;
    std::int64_t cols;
  };
  void Add(const char* name, DType dtype, ShapeRule rule, Extent extent, ConstTensor& slot) {
    specs_.push_back({prefix_ + name, dtype, rule, extent.rows, extent.cols, shard_, &slot});
  }

  const ModelConfig& config_;
  std::vector<TensorSpec>& specs_;
  std::string prefix_;
  int shard_ = 0;
};

void ListKda(Lister& list, KdaWeights& kda) {
  const std::int64_t hidden = list.config().hidden_size;
  const std::int64_t width = list.config().kda.width();
  const std::int64_t head = list.config().kda.head_dim;
  const std::int64_t heads = list.config().kda.num_heads;
  const std::int64_t taps = list.config().kda.short_conv_kernel_size;
  list.Matrix("self_attn.q_proj.weight", width, hidden, kda.q_proj);
  list.Matrix("self_attn.k_proj.weight", width, hidden, kda.k_proj);
  list.Matrix("self_attn.v_proj.weight", width, hidden, kda.v_proj);
  list.Conv("self_attn.q_conv1d.weight", width, taps, kda.q_conv);
  list.Conv("self_attn.k_conv1d.weight", width, taps, kda.k_conv);
  list.Conv("self_attn.v_conv1d.weight", width, taps, kda.v_conv);
  list.Padded("self_attn.A_log", heads, kda.a_log);
  list.Float("self_attn.dt_bias", width, kda.dt_bias);
  list.Matrix("self_attn.f_a_proj.weight", head, hidden, kda.f_a_proj);
  list.Matrix("self_attn.f_b_proj.weight", width, head, kda.f_b_proj);
  list.Matrix("self_attn.b_proj.weight", heads, hidden, kda.b_proj);
  list.Matrix("self_attn.g_proj.weight", width, hidden, kda.g_proj);
  list.Float("self_attn.o_norm.weight", head, kda.o_norm);
  list.Matrix("self_attn.o_proj.weight", hidden, width, kda.o_proj);
}

void ListMla(Lister& list, MlaWeights& mla) {
  const std::int64_t hidden = list.config().hidden_size;
  const ModelConfig::Mla& shape = list.config().mla;
  const std::int64_t heads = shape.num_heads;
  const std::int64_t value_width = heads * shape.v_head_dim;
  const std::int64_t key_value_width = heads * (shape.qk_nope_head_dim + shape.v_head_dim);
  list.Matrix("self_attn.q_a_proj.weight", shape.q_lora_rank, hidden, mla.q_a_proj);
  list.Norm("self_attn.q_a_layernorm.weight", shape.q_lora_rank, mla.q_a_norm);
  list.Matrix("self_attn.q_b_proj.weight", heads * shape.q_head_dim(), shape.q_lora_rank,
              mla.q_b_proj);
  list.Matrix("self_attn.kv_a_proj_with_mqa.weight", shape.latent_width(), hidden, mla.kv_a_proj);
  list.Norm("self_attn.kv_a_layernorm.weight", shape.kv_lora_rank, mla.kv_a_norm);
  list.Matrix("self_attn.kv_b_proj.weight", key_value_width, shape.kv_lora_rank, mla.kv_b_proj);
  list.Matrix("self_attn.g_proj.weight", value_width, hidden, mla.g_proj);
  list.Matrix("self_attn.o_proj.weight", hidden, value_width, mla.o_proj);
}

void ListDense(Lister& list, MlpWeights& mlp) {
  const std::int64_t hidden = list.config().hidden_size;
  const std::int64_t width = list.config().intermediate_size;
  list.Matrix("mlp.gate_proj.weight", width, hidden, mlp.gate_proj);
  list.Matrix("mlp.up_proj.weight", width, hidden, mlp.up_proj);
  list.Matrix("mlp.down_proj.weight", hidden, width, mlp.down_proj);
}

void ListExpert(Lister& list, kernels::ExpertWeights& expert) {
  const std::int64_t latent = list.config().moe.routed_expert_hidden_size;
  const std::int64_t width = list.config().moe.moe_intermediate_size;
  list.Packed("w1.weight_packed", width, latent / 2, expert.w1.packed);
  list.Packed("w1.weight_scale", width, latent / kMxfp4Group, expert.w1.scale);
  list.Packed("w2.weight_packed", latent, width / 2, expert.w2.packed);
  list.Packed("w2.weight_scale", latent, width / kMxfp4Group, expert.w2.scale);
  list.Packed("w3.weight_packed", width, latent / 2, expert.w3.packed);
  list.Packed("w3.weight_scale", width, latent / kMxfp4Group, expert.w3.scale);
}

void ListMoe(Lister& list, MoeWeights& moe) {
  const std::int64_t hidden = list.config().hidden_size;
  const ModelConfig::Moe& shape = list.config().moe;
  const std::int64_t latent = shape.routed_expert_hidden_size;
  const std::int64_t shared = shape.shared_width();
  list.Matrix("gate.weight", shape.num_experts, hidden, moe.router);
  list.Float("gate.e_score_correction_bias", shape.num_experts, moe.router_bias);
  list.Matrix("routed_expert_down_proj.weight", latent, hidden, moe.down_proj);
  list.Norm("routed_expert_norm.weight", latent, moe.norm);
  list.Matrix("routed_expert_up_proj.weight", hidden, latent, moe.up_proj);
  list.Matrix("shared_experts.gate_proj.weight", shared, hidden, moe.shared.gate_proj);
  list.Matrix("shared_experts.up_proj.weight", shared, hidden, moe.shared.up_proj);
  list.Matrix("shared_experts.down_proj.weight", hidden, shared, moe.shared.down_proj);
}

void ListLayer(Lister& list, int layer, BoundWeights& bound) {
  const auto index = static_cast<std::size_t>(layer);
  LayerWeights& weights = bound.text.layers[index];
  LayerMixerSources& mixers = bound.layer_mixers[index];
  const std::string prefix = "language_model.model.layers." + std::to_string(layer) + ".";
  list.Under(prefix, layer);
  list.Norm("input_layernorm.weight", list.config().hidden_size, weights.input_norm);
  list.Norm("post_attention_layernorm.weight", list.config().hidden_size,
            weights.post_attention_norm);
  list.Mixer("self_attention_res_norm.weight", "self_attention_res_proj.weight", mixers.attention);
  list.Mixer("mlp_res_norm.weight", "mlp_res_proj.weight", mixers.mlp);
  if (auto* kda = std::get_if<KdaWeights>(&weights.attention)) ListKda(list, *kda);
  if (auto* mla = std::get_if<MlaWeights>(&weights.attention)) ListMla(list, *mla);
  if (auto* dense = std::get_if<MlpWeights>(&weights.ffn)) ListDense(list, *dense);
  auto* moe = std::get_if<MoeWeights>(&weights.ffn);
  if (moe == nullptr) return;
  list.Under(prefix + "block_sparse_moe.", layer);
  ListMoe(list, *moe);
  for (std::size_t expert = 0; expert < moe->experts.size(); ++expert) {
    list.Under(prefix + "block_sparse_moe.experts." + std::to_string(expert) + ".", layer);
    ListExpert(list, moe->experts[expert]);
  }
}

void ListOutside(Lister& list, BoundWeights& bound) {
  const std::int64_t hidden = list.config().hidden_size;
  const std::int64_t vocabulary = list.config().vocab_size;
  const int shard = list.config().num_hidden_layers;
  list.Under("language_model.", shard);
  list.Matrix("model.embed_tokens.weight", vocabulary, hidden, bound.text.embed);
  list.Matrix("lm_head.weight", vocabulary, hidden, bound.text.lm_head);
  list.Norm("model.norm.weight", hidden, bound.text.final_norm);
  list.Mixer("model.output_attn_res_norm.weight", "model.output_attn_res_proj.weight",
             bound.output_mixer);
}

LayerWeights EmptyLayer(const ModelConfig& config, int layer) {
  LayerWeights weights;
  if (config.attention[static_cast<std::size_t>(layer)] == AttentionKind::kMla) {
    weights.attention = MlaWeights{};
  }
  if (!config.is_dense(layer)) {
    MoeWeights moe;
    moe.experts.resize(static_cast<std::size_t>(config.moe.num_experts));
    weights.ffn = std::move(moe);
  }
  return weights;
}

}  // namespace

std::vector<TensorSpec> ListTextTensors(const ModelConfig& config, BoundWeights& weights) {
  weights = {};
  weights.layer_mixers.resize(static_cast<std::size_t>(config.num_hidden_layers));
  for (int layer = 0; layer < config.num_hidden_layers; ++layer) {
    weights.text.layers.push_back(EmptyLayer(config, layer));
  }
  std::vector<TensorSpec> specs;
  Lister list(config, specs);
  for (int layer = 0; layer < config.num_hidden_layers; ++layer) ListLayer(list, layer, weights);
  ListOutside(list, weights);
  return specs;
}

bool IsVisionTensor(std::string_view name) {
  return name.starts_with("vision_tower.") || name.starts_with("mm_projector.");
}

}  // namespace k3::runtime
