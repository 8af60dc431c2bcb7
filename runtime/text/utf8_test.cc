#include "runtime/text/utf8.h"

#include <gtest/gtest.h>

#include "runtime/text/base64.h"
#include "runtime/text/testing.h"

namespace k3::runtime::testing {
namespace {

std::string Encode(std::uint32_t code) {
  const auto byte = [](std::uint32_t bits) { return static_cast<char>(bits); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6), byte(0x80 | (code & 63))};
  if (code < 0x10000) {
    return {byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63))};
  }
  return {byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 63)), byte(0x80 | (code >> 6 & 63)),
          byte(0x80 | (code & 63))};
}

// Kills: surrogates let in, a plane left out, a code point read wrongly.
TEST(Utf8, EveryScalarValue) {
  for (std::uint32_t code = 0; code < 0x120000; ++code) {
    const std::string text = Encode(code);
    const bool scalar = code < 0xD800 || (code > 0xDFFF && code < 0x110000);
    const Utf8Step step = StepUtf8(text);
    ASSERT_EQ(step.well_formed, scalar) << code;
    if (!scalar) continue;
    ASSERT_EQ(step.length, text.size());
    ASSERT_EQ(static_cast<std::uint32_t>(CodePoint(text)), code);
  }
}

// Kills: overlong forms, one U+FFFD per byte, a whole run as one U+FFFD, a lead byte swallowing the
// letter behind it. The long line is Unicode's own example of maximal subparts.
TEST(Utf8, MaximalSubparts) {
  const std::string r(kReplacementCharacter);
  EXPECT_EQ(ReplaceIllFormed("a\xF1\x80\x80\xE1\x80\xC2"
                             "b\x80"
                             "c\x80\xBF"
                             "d"),
            "a" + r + r + r + "b" + r + "c" + r + r + "d");
  EXPECT_EQ(ReplaceIllFormed("\xC0\xAF"), r + r);
  EXPECT_EQ(ReplaceIllFormed("\xE0\x9F\x80"), r + r + r);
  EXPECT_EQ(ReplaceIllFormed("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(ReplaceIllFormed("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(ReplaceIllFormed("\xF0\x9F\x98"), r);
  EXPECT_EQ(ReplaceIllFormed("plain é 中"), "plain é 中");
}

// Kills: an offset relative to the last step, a bad byte missed behind eight good ones.
TEST(Utf8, FirstIllFormed) {
  EXPECT_EQ(FirstIllFormed(""), std::nullopt);
  EXPECT_EQ(FirstIllFormed("long enough text, é, 中, 😀"), std::nullopt);
  for (std::size_t before = 0; before < 40; ++before) {
    const std::string text = std::string(before, 'a') + "é" + std::string(before, 'b');
    EXPECT_EQ(FirstIllFormed(text + "\xFF" + text), text.size());
    EXPECT_EQ(FirstIllFormed(text + "\xE4\xB8"), text.size());
  }
}

// Kills: holding back what can never become a character, or not holding the third byte.
TEST(Utf8, IncompleteTail) {
  EXPECT_EQ(IncompleteTail(""), 0U);
  EXPECT_EQ(IncompleteTail("abc"), 0U);
  EXPECT_EQ(IncompleteTail("é"), 0U);
  EXPECT_EQ(IncompleteTail("\xC3"), 1U);
  EXPECT_EQ(IncompleteTail("a\xE4\xB8"), 2U);
  EXPECT_EQ(IncompleteTail("a\xF0\x9F\x98"), 3U);
  EXPECT_EQ(IncompleteTail("\xF0\x9F\x98\x80"), 0U);
  EXPECT_EQ(IncompleteTail("\xF0\xF0\x9F"), 2U);
  EXPECT_EQ(IncompleteTail("\xED\xA0"), 2U);
  EXPECT_EQ(IncompleteTail("\xED\xC0"), 0U);
  EXPECT_EQ(IncompleteTail("\xED\xA0\x80"), 0U);
  EXPECT_EQ(IncompleteTail("\xE0\x80"), 0U);
  EXPECT_EQ(IncompleteTail("\x80\x80"), 0U);
  EXPECT_EQ(IncompleteTail("\xFF"), 0U);
}

// Kills: padding in the middle, a digit too few, unused bits ignored, another alphabet.
TEST(Base64, IsStrict) {
  std::mt19937 random = PrintedSeed();
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (std::uint32_t left = random() % 20; left > 0; --left) {
      bytes += static_cast<char>(random() % 256);
    }
    EXPECT_EQ(DecodeBase64(Base64(bytes)), bytes);
  }
  for (const char* bad : {"A", "AA", "AAA", "A===", "====", "AA=A", "=AAA",
                          "AB==", "AAB=", "AA==AA==", "AA-_", "AA A", "AAAA\r"}) {
    EXPECT_EQ(DecodeBase64(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace k3::runtime::testing
