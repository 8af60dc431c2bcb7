#include "runtime/config/model_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/config/field_reader.h"
#include "runtime/config/read_file.h"

namespace k3::runtime {
namespace {

// Far above the release, and low enough that no product of sizes overflows 64 bits.
constexpr IntRange kWidth{1, 1 << 20};
constexpr IntRange kHeads{1, 1 << 14};
constexpr IntRange kLayers{1, 4096};
constexpr IntRange kExperts{1, 1 << 16};
constexpr IntRange kVocabulary{1, 1 << 24};
constexpr IntRange kTokenId{0, (1 << 24) - 1};
constexpr IntRange kPositions{1, 1 << 30};
constexpr int kMaxExpertsInAll = 1 << 20;
constexpr int kMaxProjection = 1 << 24;
constexpr NumberRange kEpsilon{0.0, 1e-2};
constexpr NumberRange kPositive{0.0, 1e6};
constexpr int kTile = 16;   // kernels work in steps of 16 (the KDA chunk, the lanes of a product)
constexpr int kGroup = 32;  // one MXFP4 scale per 32 inputs
constexpr float kReferenceLatentEpsilon = 1e-6F;  // architecture notes 2.6

// The attention lists as the file has them (1-based), kept until L is known to be right.
struct LayerLists {
  std::vector<int> kda;
  std::vector<int> full;
};

// One check across fields: does nothing unless all fields it looks at could be read.
bool Known(std::initializer_list<int> fields) {
  return std::all_of(fields.begin(), fields.end(), [](int field) { return field != kUnknown; });
}

void ReadTop(FieldReader& top, ModelConfig& config) {
  top.MustBe("model_type", "kimi_k3");
  top.MustBe("tie_word_embeddings", false);
  config.bos_token_id = top.Int("bos_token_id", kTokenId);
  config.eos_token_ids = top.IntOrInts("eos_token_id", kTokenId);
}

void ReadGeneral(FieldReader& text, ModelConfig& config) {
  text.MustBe("model_type", "kimi_linear");
  config.num_hidden_layers = text.Int("num_hidden_layers", kLayers);
  config.hidden_size = text.Int("hidden_size", kWidth);
  config.vocab_size = text.Int("vocab_size", kVocabulary);
  config.intermediate_size = text.Int("intermediate_size", kWidth);
  config.first_k_dense_replace = text.Int("first_k_dense_replace", {0, kLayers.highest});
  config.rms_norm_eps = text.Number("rms_norm_eps", kEpsilon);
  config.mla_latent_norm_eps = text.Has("mla_latent_norm_eps")
                                   ? text.Number("mla_latent_norm_eps", kEpsilon)
                                   : kReferenceLatentEpsilon;
  config.max_position_embeddings = text.Int("max_position_embeddings", kPositions);
  config.situ_beta = text.Number("activation_situ_beta", kPositive);
  config.situ_linear_beta = text.Number("activation_situ_linear_beta", kPositive);
  config.attn_res_block_size = text.Int("attn_res_block_size", {1, kLayers.highest});
  text.MustBe("hidden_act", "situ");
  text.MustBe("tie_word_embeddings", false);
  text.MustBe("num_nextn_predict_layers", 0);
}

void ReadMla(FieldReader& text, ModelConfig::Mla& mla) {
  mla.num_heads = text.Int("num_attention_heads", kHeads);
  mla.q_lora_rank = text.Int("q_lora_rank", kWidth);
  mla.kv_lora_rank = text.Int("kv_lora_rank", kWidth);
  mla.qk_nope_head_dim = text.Int("qk_nope_head_dim", kWidth);
  mla.qk_rope_head_dim = text.Int("qk_rope_head_dim", kWidth);
  mla.v_head_dim = text.Int("v_head_dim", kWidth);
  const int kv_heads = text.Int("num_key_value_heads", kHeads);
  if (Known({mla.num_heads, kv_heads}) && kv_heads != mla.num_heads) {
    text.Fault("num_key_value_heads",
               "num_attention_heads, which is " + std::to_string(mla.num_heads));
  }
  text.MustBe("mla_use_nope", true);
  text.MustBe("mla_use_output_gate", true);
}

void ReadKda(FieldReader& linear, ModelConfig::Kda& kda, LayerLists& lists) {
  kda.num_heads = linear.Int("num_heads", kHeads);
  kda.head_dim = linear.Int("head_dim", kWidth);
  kda.short_conv_kernel_size = 4;  // the only one built; checked on the next line
  linear.MustBe("short_conv_kernel_size", 4);
  // Below -5 the decay over a 16-token chunk leaves the range of fp32 (architecture notes 2.3).
  kda.gate_lower_bound = linear.Number("gate_lower_bound", {-5.0 - 1e-9, -1e-6});
  linear.MustBe("use_full_rank_gate", true);
  lists.kda = linear.Ints("kda_layers", kLayers);
  lists.full = linear.Ints("full_attn_layers", kLayers);
}

void ReadMoe(FieldReader& text, ModelConfig::Moe& moe) {
  moe.num_experts = text.Int("num_experts", kExperts);
  moe.num_experts_per_token = text.Int("num_experts_per_token", kExperts);
  moe.num_shared_experts = text.Int("num_shared_experts", {1, 1024});
  moe.moe_intermediate_size = text.Int("moe_intermediate_size", kWidth);
  moe.routed_expert_hidden_size = text.Int("routed_expert_hidden_size", kWidth);
  moe.renormalize = text.Bool("moe_renormalize");
  moe.routed_scaling_factor = text.Number("routed_scaling_factor", kPositive);
  text.MustBe("latent_moe_use_norm", true);
  text.MustBe("moe_router_activation_func", "sigmoid");
  text.MustBe("topk_method", "noaux_tc");
  text.MustBe("num_expert_group", 1);
  text.MustBe("topk_group", 1);
  text.MustBe("moe_layer_freq", 1);
}

void ReadQuantization(FieldReader& quantization) {
  quantization.MustBe("quant_method", "compressed-tensors");
  quantization.MustBe("format", "mxfp4-pack-quantized");
  std::optional<FieldReader> group = quantization.OnlyChild("config_groups");
  if (!group) return;
  group->MustBe("input_activations", nullptr);
  std::optional<FieldReader> weights = group->Child("weights");
  if (!weights) return;
  weights->MustBe("num_bits", 4);
  weights->MustBe("type", "float");
  weights->MustBe("group_size", kGroup);
  weights->MustBe("symmetric", true);
  weights->MustBe("strategy", "group");
}

void CheckMultiple(FieldReader& reader, const char* key, int value, int unit) {
  if (value == kUnknown || value % unit == 0) return;
  reader.Fault(key, "a multiple of " + std::to_string(unit));
}

void CheckMultiples(FieldReader& text, const ModelConfig& config) {
  CheckMultiple(text, "hidden_size", config.hidden_size, kTile);
  CheckMultiple(text, "intermediate_size", config.intermediate_size, kTile);
  CheckMultiple(text, "q_lora_rank", config.mla.q_lora_rank, kTile);
  CheckMultiple(text, "kv_lora_rank", config.mla.kv_lora_rank, kTile);
  CheckMultiple(text, "qk_nope_head_dim", config.mla.qk_nope_head_dim, kTile);
  CheckMultiple(text, "qk_rope_head_dim", config.mla.qk_rope_head_dim, kTile);
  CheckMultiple(text, "v_head_dim", config.mla.v_head_dim, kTile);
  CheckMultiple(text, "moe_intermediate_size", config.moe.moe_intermediate_size, kGroup);
  CheckMultiple(text, "routed_expert_hidden_size", config.moe.routed_expert_hidden_size, kGroup);
}

// heads * head width stays far inside an int, so that width() and its like cannot overflow.
void CheckProjection(FieldReader& reader, const char* key, int heads, int width) {
  if (!Known({heads, width})) return;
  if (static_cast<std::int64_t>(heads) * width <= kMaxProjection) return;
  reader.Fault(key, "at most " + std::to_string(kMaxProjection) + " after multiplying by " +
                        std::to_string(heads) + " heads or experts");
}

void CheckSizes(FieldReader& text, const ModelConfig& config) {
  const ModelConfig::Mla& mla = config.mla;
  const ModelConfig::Moe& moe = config.moe;
  CheckProjection(text, "qk_nope_head_dim", mla.num_heads, mla.qk_nope_head_dim);
  CheckProjection(text, "qk_rope_head_dim", mla.num_heads, mla.qk_rope_head_dim);
  CheckProjection(text, "v_head_dim", mla.num_heads, mla.v_head_dim);
  CheckProjection(text, "moe_intermediate_size", moe.num_shared_experts, moe.moe_intermediate_size);
  if (Known({moe.num_experts, moe.num_experts_per_token}) &&
      moe.num_experts_per_token > moe.num_experts) {
    text.Fault("num_experts_per_token",
               "at most num_experts, which is " + std::to_string(moe.num_experts));
  }
  if (!Known({config.num_hidden_layers})) return;
  if (config.first_k_dense_replace > config.num_hidden_layers) {
    text.Fault("first_k_dense_replace",
               "at most num_hidden_layers, which is " + std::to_string(config.num_hidden_layers));
  }
  const std::int64_t experts = std::int64_t{config.num_hidden_layers} * moe.num_experts;
  if (experts > kMaxExpertsInAll) {
    text.Fault("num_experts",
               "at most " + std::to_string(kMaxExpertsInAll) + " experts in all layers together");
  }
}

void CheckTokenIds(FieldReader& top, const ModelConfig& config) {
  if (!Known({config.vocab_size})) return;
  const std::string expected =
      "ids below text_config.vocab_size, which is " + std::to_string(config.vocab_size);
  if (config.bos_token_id >= config.vocab_size) top.Fault("bos_token_id", expected);
  const auto& ids = config.eos_token_ids;
  if (std::any_of(ids.begin(), ids.end(), [&](int id) { return id >= config.vocab_size; })) {
    top.Fault("eos_token_id", expected);
  }
}

// The two lists, 1-based, must name each layer once between them.
void BindLayers(FieldReader& linear, const LayerLists& lists, ModelConfig& config) {
  if (config.num_hidden_layers == kUnknown || lists.kda.empty() || lists.full.empty()) return;
  const auto count = static_cast<std::size_t>(config.num_hidden_layers);
  std::vector<int> seen(count, 0);
  config.attention.assign(count, AttentionKind::kKda);
  const std::string expected = "each layer from 1 to " + std::to_string(count) +
                               " once in kda_layers and full_attn_layers together";
  const auto place = [&](const char* key, const std::vector<int>& layers, AttentionKind kind) {
    for (const int layer : layers) {
      const auto index = static_cast<std::size_t>(layer) - 1;
      if (index >= count || seen[index]++ > 0) {
        return linear.Fault(key, expected + "; layer " + std::to_string(layer) + " is " +
                                     (index >= count ? "not one of them" : "listed twice"));
      }
      config.attention[index] = kind;
    }
  };
  place("kda_layers", lists.kda, AttentionKind::kKda);
  place("full_attn_layers", lists.full, AttentionKind::kMla);
  const auto missing = std::find(seen.begin(), seen.end(), 0);
  if (missing == seen.end()) return;
  linear.Fault("kda_layers", expected + "; layer " + std::to_string(missing - seen.begin() + 1) +
                                 " is in neither");
}

void ReadText(FieldReader& text, ModelConfig& config) {
  ReadGeneral(text, config);
  ReadMla(text, config.mla);
  ReadMoe(text, config.moe);
  LayerLists lists;
  if (std::optional<FieldReader> linear = text.Child("linear_attn_config")) {
    ReadKda(*linear, config.kda, lists);
    CheckMultiple(*linear, "head_dim", config.kda.head_dim, kTile);
    CheckProjection(*linear, "head_dim", config.kda.num_heads, config.kda.head_dim);
    BindLayers(*linear, lists, config);
  }
  if (std::optional<FieldReader> quantization = text.Child("quantization_config")) {
    ReadQuantization(*quantization);
  }
  CheckMultiples(text, config);
  CheckSizes(text, config);
}

// The library's text carries the line and column; its own tag in brackets tells a user nothing.
std::string WithoutTag(const std::string& what) {
  const std::size_t end = what.find("] ");
  return end == std::string::npos ? what : what.substr(end + 2);
}

}  // namespace

int ModelConfig::num_kda_layers() const {
  return static_cast<int>(std::count(attention.begin(), attention.end(), AttentionKind::kKda));
}

int ModelConfig::num_mla_layers() const {
  return static_cast<int>(std::count(attention.begin(), attention.end(), AttentionKind::kMla));
}

Result<ModelConfig> ParseModelConfig(std::string_view json, std::string_view path) {
  const std::string file(path);
  nlohmann::json root;
  try {
    root = nlohmann::json::parse(json);
  } catch (const nlohmann::json::exception& error) {
    return Error{Code::kInvalidArgument, file + ": is not JSON: " + WithoutTag(error.what())};
  }
  if (!root.is_object()) {
    return Error{Code::kInvalidArgument, file + ": found " + std::string(root.type_name()) +
                                             " at the top, expected an object"};
  }
  FaultList faults;
  ModelConfig config{};
  config.vocab_size = kUnknown;
  FieldReader top(root, file, "", faults);
  ReadTop(top, config);
  if (std::optional<FieldReader> text = top.Child("text_config")) ReadText(*text, config);
  CheckTokenIds(top, config);
  if (!faults.empty()) return faults.ToError();
  return config;
}

Result<ModelConfig> LoadModelConfig(const std::string& checkpoint_dir) {
  const std::string path = checkpoint_dir + "/config.json";
  Result<std::string> text = ReadFile(path, kMaxConfigBytes);
  if (!text.ok()) return text.error();
  return ParseModelConfig(text.value(), path);
}

}  // namespace k3::runtime
