// UTF-8 as Unicode defines it (table 3-7): what is well-formed, and where a text stops being so.
//   1. Ill-formed text is cut into maximal subparts: the longest prefix of some well-formed
//      character, or one byte where there is none. Each reads as one U+FFFD.
//   2. Surrogates, overlong forms and values above U+10FFFF are ill-formed.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace k3::runtime {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// The character or the ill-formed subpart a text begins with.
struct Utf8Step {
  std::size_t length;  // bytes, at least 1
  bool well_formed;
  bool truncated;  // not well-formed, and more bytes could still make it so
};

// `text` is not empty.
Utf8Step StepUtf8(std::string_view text);

// The value of one well-formed character.
char32_t CodePoint(std::string_view character);

// Byte offset of the first ill-formed subpart; nothing when the whole text is well-formed.
std::optional<std::size_t> FirstIllFormed(std::string_view text);

std::string ReplaceIllFormed(std::string_view text);

// How many bytes at the end are a character that has begun and not ended: 0 to 3. The first two
// bytes of a surrogate count as such, hopeless as they are: the reference's decoder waits for the
// third byte too, and golden streams show when text comes.
std::size_t IncompleteTail(std::string_view text);

}  // namespace k3::runtime
