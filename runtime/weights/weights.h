// The text model's tensors as typed views into the mapped checkpoint: nothing is copied or widened,
// except the few kilobytes of `Derived` numbers computed once at load.
// Shapes are [out, in] row-major as stored; see architecture notes, section 3.2.
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/base/tensor.h"
#include "kernels/experts/experts.h"

namespace k3::runtime {

// One AttnRes mixer: the product norm.weight * proj.weight, fp32 [1, hidden] (derived at load).
struct MixerWeights {
  ConstTensor score;
};

struct KdaWeights {
  ConstTensor q_proj, k_proj, v_proj, g_proj;  // BF16 [H*D, hidden]
  ConstTensor f_a_proj;                        // BF16 [D, hidden]
  ConstTensor f_b_proj;                        // BF16 [H*D, D]
  ConstTensor b_proj;                          // BF16 [H, hidden]
  ConstTensor q_conv, k_conv, v_conv;          // F32 [H*D, 4]; tap 3 is the current token
  ConstTensor a_log;                           // F32 [1, H], padding cut
  ConstTensor dt_bias;                         // F32 [1, H*D]
  ConstTensor o_norm;                          // F32 [1, D]
  ConstTensor o_proj;                          // BF16 [hidden, H*D]
};

struct MlaWeights {
  ConstTensor q_a_proj;   // BF16 [q_lora, hidden]
  ConstTensor q_a_norm;   // BF16 [1, q_lora]
  ConstTensor q_b_proj;   // BF16 [H*(nope+rope), q_lora]
  ConstTensor kv_a_proj;  // BF16 [kv_lora+rope, hidden]
  ConstTensor kv_a_norm;  // BF16 [1, kv_lora]
  ConstTensor kv_b_proj;  // BF16 [H*(nope+v), kv_lora]
  ConstTensor g_proj;     // BF16 [H*v, hidden]
  ConstTensor o_proj;     // BF16 [hidden, H*v]
};

struct MlpWeights {
  ConstTensor gate_proj, up_proj;  // BF16 [width, hidden]
  ConstTensor down_proj;           // BF16 [hidden, width]
};

struct MoeWeights {
  ConstTensor router;       // BF16 [E, hidden]
  ConstTensor router_bias;  // F32 [1, E]
  ConstTensor down_proj;    // BF16 [latent, hidden]
  ConstTensor norm;         // BF16 [1, latent]
  ConstTensor up_proj;      // BF16 [hidden, latent]
  MlpWeights shared;
  std::vector<kernels::ExpertWeights> experts;  // [E]
};

struct LayerWeights {
  ConstTensor input_norm;           // BF16 [1, hidden]
  ConstTensor post_attention_norm;  // BF16 [1, hidden]
  MixerWeights attention_mixer;     // layer 0's is in the file and never used
  MixerWeights mlp_mixer;
  std::variant<KdaWeights, MlaWeights> attention;
  std::variant<MlpWeights, MoeWeights> ffn;
};

struct TextWeights {
  ConstTensor embed;       // BF16 [vocab, hidden]
  ConstTensor lm_head;     // BF16 [vocab, hidden]
  ConstTensor final_norm;  // BF16 [1, hidden]
  MixerWeights output_mixer;
  std::vector<LayerWeights> layers;
};

}  // namespace k3::runtime
