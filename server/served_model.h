// The loaded model as the front end sees it. Immutable once published (lifecycle.h); any thread may
// read it and submit to its engine.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/text/tokenizer.h"
#include "server/engine_client.h"

namespace k3::server {

// What GetModelInfo tells beyond EngineInfo.
struct ModelFacts {
  std::vector<std::string> names;  // the first is the one metrics carry
  std::string fingerprint;
  std::int64_t weights_bytes = 0;
  int num_layers = 0;
  std::int64_t max_position_embeddings = 0;
  std::string kv_cache_dtype;
  std::vector<std::int32_t> eos_ids;  // sorted
};

struct ServedModel {
  ModelFacts facts;
  runtime::Tokenizer tokenizer;
  std::unique_ptr<EngineClient> engine;

  bool HasName(const std::string& name) const {
    return std::find(facts.names.begin(), facts.names.end(), name) != facts.names.end();
  }
  // Ids a client may use: those that both the weights and the tokenizer know.
  std::int32_t num_usable_ids() const {
    return std::min(engine->info().vocab_size, tokenizer.vocabulary().size());
  }
};

}  // namespace k3::server
