// What config.json of a released K3 checkpoint says about the text model, checked.
// Names follow the keys of `text_config`; layer lists become 0-based kinds here, once.
//   1. Every field the text model uses must be present; an absent one is an error, never a default.
//   2. All faults of one file are reported together, each with its key, value and what was
//   expected.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/result.h"

namespace k3::runtime {

enum class AttentionKind : std::uint8_t { kKda, kMla };

struct ModelConfig {
  int num_hidden_layers;
  int hidden_size;
  int vocab_size;
  int intermediate_size;  // dense MLP, layers < first_k_dense_replace
  int first_k_dense_replace;
  float rms_norm_eps;         // every norm but the two of mla_latent_norm_eps
  float mla_latent_norm_eps;  // q_a_layernorm and kv_a_layernorm: 1e-6, the reference class
                              // default; not a key of the release (architecture notes 2.6); key
                              // honoured if given
  std::int64_t max_position_embeddings;

  float situ_beta;         // activation_situ_beta
  float situ_linear_beta;  // activation_situ_linear_beta

  int attn_res_block_size;
  std::vector<AttentionKind> attention;  // [num_hidden_layers]

  struct Mla {
    int num_heads;
    int q_lora_rank;
    int kv_lora_rank;
    int qk_nope_head_dim;
    int qk_rope_head_dim;  // never rotated
    int v_head_dim;
    int latent_width() const { return kv_lora_rank + qk_rope_head_dim; }
    int q_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  } mla;

  struct Kda {  // linear_attn_config
    int num_heads;
    int head_dim;  // keys and values alike
    int short_conv_kernel_size;
    float gate_lower_bound;
    int width() const { return num_heads * head_dim; }
  } kda;

  struct Moe {
    int num_experts;
    int num_experts_per_token;
    int num_shared_experts;
    int moe_intermediate_size;
    int routed_expert_hidden_size;  // latent width
    bool renormalize;               // moe_renormalize
    float routed_scaling_factor;
    int shared_width() const { return num_shared_experts * moe_intermediate_size; }
  } moe;

  int bos_token_id;
  std::vector<int> eos_token_ids;  // config.json only; see runtime/text for the full stop set

  int num_kda_layers() const;
  int num_mla_layers() const;
  bool is_dense(int layer) const { return layer < first_k_dense_replace; }
};

// The release has 5 KB; anything near this limit is not a config.json.
inline constexpr std::size_t kMaxConfigBytes = 16 << 20;

// `json` is the text of config.json; `path` is for messages.
Result<ModelConfig> ParseModelConfig(std::string_view json, std::string_view path);
Result<ModelConfig> LoadModelConfig(const std::string& checkpoint_dir);

}  // namespace k3::runtime
