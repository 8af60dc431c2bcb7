// The ids at which generation ends: what config.json, generation_config.json and tokenizer_config's
// eos_token say, together. Each alone misses one in the released K3.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/result.h"
#include "runtime/text/vocabulary.h"

namespace k3::runtime {

// Sorted, each once. `eos_token_id` is a whole number or a list of them and must be in config.json;
// generation_config.json may be absent, and so may its eos_token_id. Ids that the vocabulary lacks
// are faults; all faults are reported together.
Result<std::vector<std::int32_t>> LoadStopIds(const std::string& checkpoint_dir,
                                              const Vocabulary& vocabulary);

}  // namespace k3::runtime
