#include "runtime/text/detokenizer.h"

#include <utility>

#include "runtime/text/utf8.h"

namespace k3::runtime {
namespace {

std::string_view BytesOf(const Vocabulary& vocabulary, std::int32_t id, SpecialText special) {
  if (special == SpecialText::kHidden && vocabulary.is_special(id)) return {};
  return vocabulary.bytes(id);
}

}  // namespace

std::string Detokenizer::Push(std::int32_t id) {
  held_ += BytesOf(vocabulary_, id, special_);
  const std::size_t ready = held_.size() - IncompleteTail(held_);
  std::string text = ReplaceIllFormed(std::string_view(held_).substr(0, ready));
  held_.erase(0, ready);
  return text;
}

std::string Detokenizer::Flush() {
  return ReplaceIllFormed(std::exchange(held_, {}));
}

std::string DecodeBytes(const Vocabulary& vocabulary, std::span<const std::int32_t> ids,
                        SpecialText special) {
  std::string bytes;
  for (const std::int32_t id : ids) bytes += BytesOf(vocabulary, id, special);
  return bytes;
}

std::string DecodeText(const Vocabulary& vocabulary, std::span<const std::int32_t> ids,
                       SpecialText special) {
  return ReplaceIllFormed(DecodeBytes(vocabulary, ids, special));
}

}  // namespace k3::runtime
