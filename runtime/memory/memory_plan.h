// How much of what, decided once at start from the config, the storage types and a byte budget.
// Nothing grows afterwards.
#pragma once
#include <cstdint>
#include <string>

#include "kernels/base/result.h"
#include "kernels/page_layout.h"
#include "runtime/config/model_config.h"

namespace k3::runtime {

struct MemoryOptions {
  std::int64_t cache_bytes = 0;  // the page pool; 0: a default from the free memory
  int max_model_len = 0;         // 0: what the model allows, cut to what the pool holds
  int max_num_seqs = 1;
  DType latent_dtype = DType::kBf16;
};

struct MemoryPlan {
  kernels::PageLayout layout{};
  int num_pages = 0;
  int max_model_len = 0;  // tokens of one sequence, prompt and output
  std::int64_t pool_bytes() const { return num_pages * layout.page_bytes; }
  // Sequences of `tokens` tokens that fit the pool at once.
  std::int64_t sequences_of(std::int64_t tokens) const;
};

// kInvalidArgument when the budget holds no sequence at all, or an asked max_model_len does not
// fit: the message says how many bytes would do.
Result<MemoryPlan> PlanMemory(const ModelConfig& config, const MemoryOptions& options);

// A quarter of the memory that is available now, at most 8 GiB.
std::int64_t DefaultCacheBytes();

}  // namespace k3::runtime
