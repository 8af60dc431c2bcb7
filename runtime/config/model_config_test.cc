#include "runtime/config/model_config.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/weights/make/presets.h"

namespace k3::runtime {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

json Release() {
  return json::parse(FindPreset("k3")->config_json);
}

json Nulled(const std::string& pointer) {
  json config = Release();
  config[json::json_pointer(pointer)] = nullptr;
  return config;
}

// The message of a config that must be refused.
std::string Refusal(const json& config) {
  const Result<ModelConfig> parsed = ParseModelConfig(config.dump(), "x/config.json");
  return parsed.ok() ? "(accepted)" : parsed.error().message;
}

std::string RefusalOf(const std::string& pointer, const json& value) {
  json config = Release();
  config[json::json_pointer(pointer)] = value;
  return Refusal(config);
}

int Lines(const std::string& text) {
  return 1 + static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

// Kills: 1-based layer lists taken as 0-based, "every fourth layer" for the last two, epsilons
// mixed up, a field read from the wrong key.
TEST(ModelConfig, ReadsTheRelease) {
  const Result<ModelConfig> parsed = ParseModelConfig(Release().dump(), "config.json");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const ModelConfig& config = parsed.value();
  EXPECT_EQ(config.num_hidden_layers, 93);
  EXPECT_EQ(config.hidden_size, 7168);
  EXPECT_EQ(config.vocab_size, 163840);
  EXPECT_EQ(config.intermediate_size, 33792);
  EXPECT_EQ(config.num_kda_layers(), 69);
  EXPECT_EQ(config.num_mla_layers(), 24);
  EXPECT_EQ(config.attention[2], AttentionKind::kKda);
  EXPECT_EQ(config.attention[3], AttentionKind::kMla);
  EXPECT_EQ(config.attention[90], AttentionKind::kKda);
  EXPECT_EQ(config.attention[91], AttentionKind::kMla);
  EXPECT_EQ(config.attention[92], AttentionKind::kMla);
  EXPECT_TRUE(config.is_dense(0));
  EXPECT_FALSE(config.is_dense(1));
  EXPECT_EQ(config.rms_norm_eps, 1e-5F);
  EXPECT_EQ(config.mla_latent_norm_eps, 1e-6F);
  EXPECT_EQ(config.mla.latent_width(), 576);
  EXPECT_EQ(config.mla.q_head_dim(), 192);
  EXPECT_EQ(config.kda.width(), 12288);
  EXPECT_EQ(config.kda.gate_lower_bound, -5.0F);
  EXPECT_EQ(config.moe.shared_width(), 6144);
  EXPECT_EQ(config.moe.num_experts_per_token, 16);
  EXPECT_EQ(config.max_position_embeddings, 1048576);
  EXPECT_EQ(config.bos_token_id, 163584);
  EXPECT_EQ(config.eos_token_ids, std::vector<int>{163586});
}

// Kills: stopping at the first fault; a message without key, value or what was expected.
TEST(ModelConfig, NamesThreeFaultsAtOnce) {
  json config = Release();
  config["text_config"]["hidden_size"] = "wide";
  config["text_config"].erase("num_experts");
  config["text_config"]["linear_attn_config"]["full_attn_layers"][0] = 5;
  const std::string message = Refusal(config);
  EXPECT_THAT(message, HasSubstr("x/config.json: text_config.hidden_size: found \"wide\", "
                                 "expected a whole number from 1 to 1048576"));
  EXPECT_THAT(message, HasSubstr("text_config.num_experts: found nothing, expected"));
  EXPECT_THAT(message, AllOf(HasSubstr("text_config.linear_attn_config.full_attn_layers"),
                             HasSubstr("layer 5 is listed twice")));
}

// Kills: a default for an absent field, a fault that hides behind another type's check.
TEST(ModelConfig, EveryFieldMustBeThere) {
  const std::vector<std::string> required = {"/model_type", "/tie_word_embeddings", "/bos_token_id",
                                             "/eos_token_id", "/text_config"};
  std::vector<std::string> pointers = required;
  for (const char* key : {"num_hidden_layers",
                          "hidden_size",
                          "vocab_size",
                          "intermediate_size",
                          "first_k_dense_replace",
                          "moe_layer_freq",
                          "hidden_act",
                          "activation_situ_beta",
                          "activation_situ_linear_beta",
                          "rms_norm_eps",
                          "max_position_embeddings",
                          "tie_word_embeddings",
                          "attn_res_block_size",
                          "num_attention_heads",
                          "num_key_value_heads",
                          "q_lora_rank",
                          "kv_lora_rank",
                          "qk_nope_head_dim",
                          "qk_rope_head_dim",
                          "v_head_dim",
                          "mla_use_nope",
                          "mla_use_output_gate",
                          "linear_attn_config",
                          "linear_attn_config/num_heads",
                          "linear_attn_config/head_dim",
                          "linear_attn_config/short_conv_kernel_size",
                          "linear_attn_config/gate_lower_bound",
                          "linear_attn_config/use_full_rank_gate",
                          "linear_attn_config/full_attn_layers",
                          "linear_attn_config/kda_layers",
                          "num_experts",
                          "num_experts_per_token",
                          "num_shared_experts",
                          "moe_intermediate_size",
                          "routed_expert_hidden_size",
                          "latent_moe_use_norm",
                          "moe_router_activation_func",
                          "moe_renormalize",
                          "routed_scaling_factor",
                          "topk_method",
                          "num_expert_group",
                          "topk_group",
                          "num_nextn_predict_layers",
                          "quantization_config",
                          "quantization_config/format",
                          "quantization_config/config_groups",
                          "quantization_config/config_groups/group_0/weights/num_bits",
                          "quantization_config/config_groups/group_0/weights/group_size",
                          "quantization_config/config_groups/group_0/weights/symmetric",
                          "quantization_config/config_groups/group_0/weights/type"}) {
    pointers.push_back(std::string("/text_config/") + key);
  }
  for (const std::string& pointer : pointers) {
    std::string dotted = pointer.substr(1);
    std::replace(dotted.begin(), dotted.end(), '/', '.');
    EXPECT_THAT(Refusal(Nulled(pointer)), HasSubstr(dotted + ": found null")) << pointer;
    json config = Release();
    const json::json_pointer whole(pointer);
    config[whole.parent_pointer()].erase(whole.back());
    EXPECT_THAT(Refusal(config), HasSubstr(dotted + ": found nothing")) << pointer;
  }
}

// Kills: running a variant we did not build (other activation, gate, router, quantisation) as if
// it were K3; sizes the kernels' tiles do not divide; sizes that overflow.
TEST(ModelConfig, RefusesWhatWeDidNotBuild) {
  const std::vector<std::pair<std::string, json>> wrong = {
      {"/tie_word_embeddings", true},
      {"/eos_token_id", 163840},
      {"/eos_token_id", json::array()},
      {"/bos_token_id", -1},
      {"/text_config/hidden_act", "silu"},
      {"/text_config/hidden_size", 7160},
      {"/text_config/hidden_size", 7168.0},
      {"/text_config/hidden_size", 18446744073709551615U},
      {"/text_config/first_k_dense_replace", 94},
      {"/text_config/mla_use_nope", false},
      {"/text_config/mla_use_output_gate", 1},
      {"/text_config/moe_layer_freq", 2},
      {"/text_config/num_key_value_heads", 8},
      {"/text_config/num_experts_per_token", 897},
      {"/text_config/num_experts", 60000},
      {"/text_config/moe_intermediate_size", 3088},
      {"/text_config/routed_expert_hidden_size", 3600},
      {"/text_config/moe_router_activation_func", "softmax"},
      {"/text_config/topk_method", "greedy"},
      {"/text_config/num_expert_group", 8},
      {"/text_config/num_nextn_predict_layers", 1},
      {"/text_config/rms_norm_eps", 0},
      {"/text_config/rms_norm_eps", "1e-5"},
      {"/text_config/qk_rope_head_dim", 60},
      {"/text_config/v_head_dim", 1048576},
      {"/text_config/linear_attn_config/head_dim", 120},
      {"/text_config/linear_attn_config/short_conv_kernel_size", 3},
      {"/text_config/linear_attn_config/gate_lower_bound", -6.0},
      {"/text_config/linear_attn_config/gate_lower_bound", 0.0},
      {"/text_config/linear_attn_config/kda_layers", json::array({1, 2, "3"})},
      {"/text_config/linear_attn_config/kda_layers", json::array()},
      {"/text_config/quantization_config/format", "nvfp4-pack-quantized"},
      {"/text_config/quantization_config/config_groups/group_0/weights/group_size", 16},
      {"/text_config/quantization_config/config_groups/group_1", json::object()},
  };
  for (const auto& [pointer, value] : wrong) {
    const std::string message = RefusalOf(pointer, value);
    EXPECT_THAT(message, HasSubstr("expected")) << pointer << " = " << value;
    EXPECT_EQ(Lines(message), 1) << message;
  }
}

// Kills: lists that are taken for a partition without looking.
TEST(ModelConfig, LayerListsAreAPartition) {
  const std::string key = "/text_config/linear_attn_config/full_attn_layers/23";
  EXPECT_THAT(RefusalOf(key, 94), HasSubstr("layer 94 is not one of them"));
  EXPECT_THAT(RefusalOf(key, 92), HasSubstr("layer 92 is listed twice"));
  EXPECT_THAT(RefusalOf(key, 0), HasSubstr("expected a list"));
  json config = Release();
  config["text_config"]["linear_attn_config"]["kda_layers"].erase(0);
  EXPECT_THAT(Refusal(config), HasSubstr("layer 1 is in neither"));
}

// Kills: a parser's exception that escapes, a message without a place.
TEST(ModelConfig, BadJsonGivesThePosition) {
  for (const char* text : {"", "{\n \"text_config\": {,\n}", "{\"a\": 1e999}", "\xff\xfe{}"}) {
    const Result<ModelConfig> parsed = ParseModelConfig(text, "x/config.json");
    ASSERT_FALSE(parsed.ok());
    EXPECT_THAT(parsed.error().message, HasSubstr("x/config.json: is not JSON")) << text;
  }
  const Result<ModelConfig> parsed = ParseModelConfig("{\n \"a\": {,\n}", "c");
  EXPECT_THAT(parsed.error().message, HasSubstr("line 2, column"));
  EXPECT_THAT(ParseModelConfig("[1]", "c").error().message, HasSubstr("expected an object"));
}

// Kills: refusing keys we do not know; losing the two optional spellings.
TEST(ModelConfig, TakesOptionalFormsAndIgnoresOtherKeys) {
  json config = Release();
  config["surprise"] = {{"hidden_size", "x"}};
  config["text_config"]["surprise"] = 1;
  config["text_config"]["mla_latent_norm_eps"] = 1e-5;
  config["eos_token_id"] = {163586, 163585};
  const Result<ModelConfig> parsed = ParseModelConfig(config.dump(), "config.json");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed.value().mla_latent_norm_eps, 1e-5F);
  EXPECT_EQ(parsed.value().eos_token_ids, (std::vector<int>{163586, 163585}));
}

// Kills: an empty path or a directory read as an empty config.
TEST(ModelConfig, MissingFileIsNamed) {
  const Result<ModelConfig> loaded = LoadModelConfig("/nonexistent/checkpoint");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, Code::kNotFound);
  EXPECT_THAT(loaded.error().message, HasSubstr("/nonexistent/checkpoint/config.json"));
}

}  // namespace
}  // namespace k3::runtime
