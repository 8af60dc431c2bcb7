#include "runtime/memory/memory_plan.h"

#include <gtest/gtest.h>

namespace k3::runtime {
namespace {

ModelConfig Released() {
  ModelConfig config{};
  config.num_hidden_layers = 93;
  config.max_position_embeddings = 1 << 20;
  config.attention.assign(93, AttentionKind::kKda);
  for (int layer = 3; layer < 92; layer += 4)
    config.attention[static_cast<std::size_t>(layer)] = AttentionKind::kMla;
  config.attention[92] = AttentionKind::kMla;
  config.mla.kv_lora_rank = 512;
  config.mla.qk_rope_head_dim = 64;
  config.kda.num_heads = 96;
  config.kda.head_dim = 128;
  return config;
}

// Kills: a unit without its conv tail, units split over pages, a state counted per layer group
// instead of per layer, latents of KDA layers. The numbers are those of design section 1.
TEST(MemoryPlan, ReleasedModelSizes) {
  const Result<MemoryPlan> plan =
      PlanMemory(Released(), {.cache_bytes = std::int64_t{100} << 30, .max_num_seqs = 64});
  ASSERT_TRUE(plan.ok());
  const kernels::PageLayout& layout = plan.value().layout;
  EXPECT_EQ(layout.block_bytes, 442368);
  EXPECT_EQ(layout.unit_bytes, 70144);
  EXPECT_EQ(layout.page_bytes, 442368);
  EXPECT_EQ(layout.units_per_page, 6);
  EXPECT_EQ(layout.state_pages, 1104);
  EXPECT_EQ(plan.value().num_pages, (std::int64_t{100} << 30) / 442368);
}

// Kills: a pool that could not even start its only sequence, and a limit one token too generous.
TEST(MemoryPlan, RefusesWhatHoldsNoSequence) {
  const ModelConfig config = Released();
  const std::int64_t state = std::int64_t{1104} * 442368;
  const Result<MemoryPlan> none = PlanMemory(config, {.cache_bytes = state + 442368});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("--cache-bytes"), std::string::npos);
  const Result<MemoryPlan> two = PlanMemory(config, {.cache_bytes = state + 2 * 442368});
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two.value().max_model_len, 32);
  EXPECT_FALSE(PlanMemory(config, {.cache_bytes = state + 2 * 442368, .max_model_len = 33}).ok());
  EXPECT_FALSE(PlanMemory(config, {.max_model_len = (1 << 20) + 1}).ok());
}

}  // namespace
}  // namespace k3::runtime
