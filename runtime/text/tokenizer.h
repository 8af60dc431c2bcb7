// Text to token ids, as the K3 reference does it.
//   1. Encode never makes a control id: the text of a marker is ordinary text.
//   2. Ill-formed UTF-8 is read as U+FFFD for each maximal ill-formed subpart.
//   3. Ids of well-formed text decode to that text.
//   4. Work is n log n in the bytes of the text, whatever they are.
// Immutable after loading: any number of threads may encode at once.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/result.h"
#include "runtime/text/merges.h"
#include "runtime/text/split.h"
#include "runtime/text/vocabulary.h"

namespace k3::runtime {

class Tokenizer {
 public:
  // Reads tiktoken.model and tokenizer_config.json of a checkpoint.
  static Result<Tokenizer> Load(const std::string& checkpoint_dir);
  explicit Tokenizer(Vocabulary vocabulary);

  std::vector<std::int32_t> Encode(std::string_view text) const;

  // For text of our own making: the name of a control token becomes its id. Never for a client's
  // words, which could then end a message and speak in another role.
  std::vector<std::int32_t> EncodeWithSpecials(std::string_view text) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  class Call;

  Vocabulary vocabulary_;
  MergeTable merges_;
  PieceSplitter splitter_;
};

}  // namespace k3::runtime
