// The control tokens of a checkpoint: kReserved ids right after the base vocabulary, named by the
// `added_tokens_decoder` of tokenizer_config.json; a nameless one is "<|reserved_token_{id}|>".
//   1. Names are not empty and differ from each other.
//   2. `special` is the file's flag and only says who hides in "skip special tokens": open, close
//      and sep of K3 carry false and are control tokens all the same.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/result.h"

namespace k3::runtime {

struct SpecialToken {
  std::string name;
  bool special;
};

// What a text holds at some place: the longest name that begins there.
struct SpecialMatch {
  std::int32_t id;
  std::size_t length;
};

class SpecialTokens {
 public:
  static constexpr std::int32_t kReserved = 256;

  // `json` is the text of tokenizer_config.json, `first_id` the size of the base vocabulary.
  static Result<SpecialTokens> Parse(std::string_view json, const std::string& path,
                                     std::int32_t first_id);
  static Result<SpecialTokens> Load(const std::string& path, std::int32_t first_id);

  // A vocabulary without control tokens.
  static SpecialTokens None(std::int32_t first_id) { return SpecialTokens(first_id); }

  std::int32_t first_id() const { return first_id_; }
  std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }
  const SpecialToken& token(std::int32_t id) const;
  std::optional<std::int32_t> Find(std::string_view name) const;
  std::optional<SpecialMatch> MatchAt(std::string_view text) const;
  // The bytes a name can begin with: where none of them is, nothing can match.
  const std::string& first_bytes() const { return first_bytes_; }
  std::optional<std::int32_t> eos_id() const { return eos_id_; }

 private:
  friend class SpecialReader;
  explicit SpecialTokens(std::int32_t first_id) : first_id_(first_id) {}

  std::int32_t first_id_;
  std::vector<SpecialToken> tokens_;                      // by id - first_id_
  std::map<std::string, std::int32_t, std::less<>> ids_;  // by name
  std::vector<std::size_t> lengths_;                      // of names, distinct, longest first
  std::string first_bytes_;
  std::optional<std::int32_t> eos_id_;
};

}  // namespace k3::runtime
