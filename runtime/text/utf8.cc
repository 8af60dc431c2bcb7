#include "runtime/text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/base/check.h"

namespace k3::runtime {
namespace {

// What a lead byte promises: how many bytes, and the range of the second one. The ranges are
// narrower than 80..BF where they keep out overlong forms, surrogates and values too large.
struct Lead {
  std::size_t length;  // 0: no character begins with this byte
  std::uint8_t second_low;
  std::uint8_t second_high;
};

Lead LeadOf(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

std::uint8_t ByteAt(std::string_view text, std::size_t index) {
  return static_cast<std::uint8_t>(text[index]);
}

// Eight ASCII bytes at a time: most text is mostly that.
std::size_t SkipAscii(std::string_view text, std::size_t at) {
  while (at + 8 <= text.size()) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, sizeof(word));
    if ((word & 0x8080808080808080ULL) != 0) return at;
    at += 8;
  }
  return at;
}

}  // namespace

Utf8Step StepUtf8(std::string_view text) {
  K3_CHECK(!text.empty());
  const Lead lead = LeadOf(ByteAt(text, 0));
  if (lead.length == 0) return {1, false, false};
  std::size_t length = 1;
  while (length < lead.length) {
    if (length == text.size()) return {length, false, true};
    const std::uint8_t byte = ByteAt(text, length);
    const std::uint8_t low = length == 1 ? lead.second_low : 0x80;
    const std::uint8_t high = length == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {length, false, false};
    ++length;
  }
  return {length, true, false};
}

char32_t CodePoint(std::string_view character) {
  const std::uint8_t first = ByteAt(character, 0);
  if (character.size() == 1) return first;
  // A lead byte of n bytes carries its low 7 - n bits.
  char32_t value = first & (0x7FU >> character.size());
  for (std::size_t i = 1; i < character.size(); ++i) {
    value = (value << 6) | (ByteAt(character, i) & 0x3FU);
  }
  return value;
}

std::optional<std::size_t> FirstIllFormed(std::string_view text) {
  std::size_t at = SkipAscii(text, 0);
  while (at < text.size()) {
    const Utf8Step step = StepUtf8(text.substr(at));
    if (!step.well_formed) return at;
    at += step.length;
    if (step.length == 1) at = SkipAscii(text, at);
  }
  return std::nullopt;
}

std::string ReplaceIllFormed(std::string_view text) {
  std::string replaced;
  replaced.reserve(text.size());
  while (const std::optional<std::size_t> bad = FirstIllFormed(text)) {
    replaced += text.substr(0, *bad);
    replaced += kReplacementCharacter;
    text.remove_prefix(*bad + StepUtf8(text.substr(*bad)).length);
  }
  replaced += text;
  return replaced;
}

std::size_t IncompleteTail(std::string_view text) {
  const std::size_t two = text.size() - std::min<std::size_t>(2, text.size());
  const bool surrogate = text.substr(two).starts_with('\xED') && text.size() - two == 2 &&
                         ByteAt(text, two + 1) >= 0x80 && ByteAt(text, two + 1) <= 0xBF;
  if (surrogate) return 2;
  const std::size_t longest = std::min<std::size_t>(3, text.size());
  for (std::size_t length = longest; length > 0; --length) {
    const Utf8Step step = StepUtf8(text.substr(text.size() - length));
    if (step.truncated && step.length == length) return length;
  }
  return 0;
}

}  // namespace k3::runtime
