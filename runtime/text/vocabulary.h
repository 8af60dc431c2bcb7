// Every token of a checkpoint: base tokens by rank, then the control tokens.
//   1. Ids are 0..size-1; base ids come first, control ids follow.
//   2. bytes(id) of a control token is its name.
// Immutable after loading: any thread may read.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/base/result.h"
#include "runtime/text/rank_table.h"
#include "runtime/text/special_tokens.h"

namespace k3::runtime {

class Vocabulary {
 public:
  // Reads tiktoken.model and tokenizer_config.json; the faults of both are reported together.
  static Result<Vocabulary> Load(const std::string& checkpoint_dir);
  // A tiktoken.model alone: no control tokens, no eos.
  static Result<Vocabulary> LoadRanks(const std::string& tiktoken_path);

  std::int32_t size() const { return base_.size() + specials_.size(); }
  bool contains(std::int32_t id) const { return id >= 0 && id < size(); }
  bool is_control(std::int32_t id) const { return contains(id) && id >= base_.size(); }
  // Left out where special tokens are hidden: control tokens flagged `special`.
  bool is_special(std::int32_t id) const { return is_control(id) && specials_.token(id).special; }
  std::string_view bytes(std::int32_t id) const;

  // The control token of this name.
  std::optional<std::int32_t> FindControl(std::string_view name) const {
    return specials_.Find(name);
  }
  // tokenizer_config's eos_token; only LoadRanks leaves it empty.
  std::optional<std::int32_t> eos_id() const { return specials_.eos_id(); }

  const RankTable& base() const { return base_; }
  const SpecialTokens& specials() const { return specials_; }

 private:
  Vocabulary(RankTable base, SpecialTokens specials)
      : base_(std::move(base)), specials_(std::move(specials)) {}

  RankTable base_;
  SpecialTokens specials_;
};

}  // namespace k3::runtime
