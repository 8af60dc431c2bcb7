#include "runtime/weights/make/presets.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "runtime/weights/make/embedded.h"

namespace k3::runtime {
namespace {

using Json = nlohmann::ordered_json;

// The fields in which the presets differ; all others are those of the template.
struct Shape {
  const char* name;
  int layers, hidden, vocabulary, dense_width, block_size;
  int kda_heads, kda_head_dim;
  int mla_heads, q_lora, kv_lora, nope, rope, value_dim;
  int experts, experts_per_token, expert_width, latent;
  int mla_every;      // 1-based: every n-th layer is MLA
  int mla_also;       // and this one; 0 = no other
  int first_special;  // id of [BOS]; the others follow at the released distances
  Layout layout;
};

constexpr int kTestSpecials = 2560;
constexpr int kReleaseSpecials = 163584;

constexpr std::array<Shape, 4> kShapes = {{
    {"nano",
     9,
     256,
     2816,
     512,
     4,
     2,
     128,
     2,
     96,
     512,
     128,
     64,
     128,
     32,
     4,
     96,
     128,
     4,
     9,
     kTestSpecials,
     {true, true, 128}},
    {"micro",
     5,
     96,
     2816,
     160,
     2,
     3,
     32,
     3,
     48,
     64,
     32,
     16,
     32,
     8,
     3,
     32,
     64,
     3,
     5,
     kTestSpecials,
     {false, false, 0}},
    {"bench", 8,  1536, 16384, 6144, 4,   12,  128, 12, 384,           512,
     128,     64, 128,  64,    8,    768, 768, 4,   0,  kTestSpecials, {true, true, 128}},
    {"k3",
     93,
     7168,
     163840,
     33792,
     12,
     96,
     128,
     96,
     1536,
     512,
     128,
     64,
     128,
     896,
     16,
     3072,
     3584,
     4,
     93,
     kReleaseSpecials,
     {true, true, 128}},
}};

bool IsMla(const Shape& shape, int layer) {
  return layer % shape.mla_every == 0 || layer == shape.mla_also;
}

void SetTokens(Json& object, int first_special) {
  object["bos_token_id"] = first_special;
  object["eos_token_id"] = first_special + 2;
  object["pad_token_id"] = first_special + 255;
}

void SetLinearAttention(Json& linear, const Shape& shape) {
  linear["num_heads"] = shape.kda_heads;
  linear["head_dim"] = shape.kda_head_dim;
  linear["kda_layers"] = Json::array();
  linear["full_attn_layers"] = Json::array();
  for (int layer = 1; layer <= shape.layers; ++layer) {
    linear[IsMla(shape, layer) ? "full_attn_layers" : "kda_layers"].push_back(layer);
  }
}

void SetText(Json& text, const Shape& shape) {
  SetTokens(text, shape.first_special);
  SetLinearAttention(text["linear_attn_config"], shape);
  text["num_hidden_layers"] = shape.layers;
  text["hidden_size"] = shape.hidden;
  text["vocab_size"] = shape.vocabulary;
  text["intermediate_size"] = shape.dense_width;
  text["attn_res_block_size"] = shape.block_size;
  text["num_attention_heads"] = shape.mla_heads;
  text["num_key_value_heads"] = shape.mla_heads;
  text["q_lora_rank"] = shape.q_lora;
  text["kv_lora_rank"] = shape.kv_lora;
  text["qk_nope_head_dim"] = shape.nope;
  text["qk_rope_head_dim"] = shape.rope;
  text["v_head_dim"] = shape.value_dim;
  text["num_experts"] = shape.experts;
  text["num_experts_per_token"] = shape.experts_per_token;
  text["moe_intermediate_size"] = shape.expert_width;
  text["routed_expert_hidden_size"] = shape.latent;
}

std::string ConfigJson(const Shape& shape) {
  Json config = Json::parse(EmbeddedConfigTemplate());
  SetTokens(config, shape.first_special);
  config["media_placeholder_token_id"] = shape.first_special + 21;
  SetText(config["text_config"], shape);
  return config.dump(2) + "\n";
}

}  // namespace

std::optional<Preset> FindPreset(std::string_view name) {
  const auto* found = std::find_if(kShapes.begin(), kShapes.end(),
                                   [&](const Shape& shape) { return shape.name == name; });
  if (found == kShapes.end()) return std::nullopt;
  return Preset{found->name, ConfigJson(*found), found->layout};
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  names.reserve(std::size(kShapes));
  for (const Shape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

}  // namespace k3::runtime
