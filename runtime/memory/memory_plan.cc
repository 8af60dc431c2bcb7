#include "runtime/memory/memory_plan.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "cache/types.h"

namespace k3::runtime {
namespace {

static_assert(cache::kBlockTokens == kernels::kGridTokens, "one grid for both rooms");

constexpr std::int64_t kMaxDefault = std::int64_t{8} << 30;
constexpr std::int64_t kFallbackAvailable = std::int64_t{4} << 30;

std::int64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (std::int64_t kilobytes = 0; file >> key >> kilobytes;) {
    if (key == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, unit);
  }
  return kFallbackAvailable;
}

}  // namespace

std::int64_t DefaultCacheBytes() {
  return std::min(kMaxDefault, AvailableBytes() / 4);
}

std::int64_t MemoryPlan::sequences_of(std::int64_t tokens) const {
  return num_pages / (layout.state_pages + cache::BlocksFor(tokens));
}

Result<MemoryPlan> PlanMemory(const ModelConfig& config, const MemoryOptions& options) {
  MemoryPlan plan;
  plan.layout = kernels::MakePageLayout({.mla_layers = config.num_mla_layers(),
                                         .latent_width = config.mla.latent_width(),
                                         .latent_dtype = options.latent_dtype,
                                         .kda_layers = config.num_kda_layers(),
                                         .kda_heads = config.kda.num_heads,
                                         .kda_head_dim = config.kda.head_dim});
  const std::int64_t page = plan.layout.page_bytes;
  const std::int64_t budget = options.cache_bytes > 0 ? options.cache_bytes : DefaultCacheBytes();
  const std::int64_t longest = options.max_model_len > 0
                                   ? options.max_model_len
                                   : std::min<std::int64_t>(config.max_position_embeddings,
                                                            std::numeric_limits<int>::max() / 2);
  if (longest > config.max_position_embeddings) {
    return Error{Code::kInvalidArgument,
                 "--max-model-len " + std::to_string(longest) + " is beyond the model's " +
                     std::to_string(config.max_position_embeddings) + " positions"};
  }
  // More than every running sequence at full length could use would never be touched.
  const std::int64_t useful =
      (plan.layout.state_pages + cache::BlocksFor(longest)) * std::int64_t{options.max_num_seqs};
  const std::int64_t pages =
      std::min({budget / page, useful, std::int64_t{std::numeric_limits<int>::max()}});
  plan.num_pages = static_cast<int>(pages);
  const std::int64_t tokens = (pages - plan.layout.state_pages) * cache::kBlockTokens;
  const std::int64_t wanted =
      options.max_model_len > 0 ? longest : std::int64_t{2} * cache::kBlockTokens;
  if (tokens < wanted) {
    const std::int64_t needed =
        (plan.layout.state_pages + cache::BlocksFor(wanted)) * plan.layout.page_bytes;
    return Error{Code::kInvalidArgument,
                 "the page pool of " + std::to_string(budget) +
                     " bytes cannot hold one sequence of " + std::to_string(wanted) +
                     " tokens, which takes " + std::to_string(needed) +
                     " bytes; raise --cache-bytes or lower --max-model-len"};
  }
  plan.max_model_len = static_cast<int>(std::min(longest, tokens));
  return plan;
}

}  // namespace k3::runtime
