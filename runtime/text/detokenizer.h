// Token ids to text, also while they are still coming.
//   1. No emitted text holds a part of a character: bytes that may still become one wait.
//   2. All Pushes and the Flush together are DecodeText of all ids, however they were cut.
//   3. A byte sequence that cannot become a character any more reads as one U+FFFD.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/text/vocabulary.h"

namespace k3::runtime {

enum class SpecialText : std::uint8_t {
  kShown,   // a control token decodes to its name
  kHidden,  // control tokens flagged `special` decode to nothing
};

// For one stream of ids, on one thread. The vocabulary outlives it.
class Detokenizer {
 public:
  explicit Detokenizer(const Vocabulary& vocabulary, SpecialText special = SpecialText::kShown)
      : vocabulary_(vocabulary), special_(special) {}

  // The text to emit now. The vocabulary contains `id`.
  std::string Push(std::int32_t id);
  // The rest, at the end of the stream; after it a new stream may begin.
  std::string Flush();

 private:
  const Vocabulary& vocabulary_;
  SpecialText special_;
  std::string held_;  // an unfinished character, at most 3 bytes between calls
};

// All ids at once; the vocabulary contains each.
std::string DecodeBytes(const Vocabulary& vocabulary, std::span<const std::int32_t> ids,
                        SpecialText special = SpecialText::kShown);
std::string DecodeText(const Vocabulary& vocabulary, std::span<const std::int32_t> ids,
                       SpecialText special = SpecialText::kShown);

}  // namespace k3::runtime
