#include "runtime/text/tokenizer.h"

#include <cstdio>

#include <gtest/gtest.h>

#include "runtime/text/base64.h"
#include "runtime/text/detokenizer.h"
#include "runtime/text/testing.h"
#include "runtime/text/utf8.h"

namespace k3::runtime::testing {
namespace {

using Ids = std::vector<std::int32_t>;

std::string TextOf(const nlohmann::json& golden) {
  if (golden.contains("text")) return golden.at("text").get<std::string>();
  return DecodeBase64(golden.at("b64").get<std::string>()).value();
}

// Kills: Script_Extensions for Han, \s with U+180E or U+001C, ties to the
// right, merging before the look-up of the whole piece, markers read as control tokens, one U+FFFD
// per byte, a guard at 24,999 or one that counts bytes.
TEST(Tokenizer, GoldenIds) {
  const Tokenizer tokenizer = LoadMicro();
  for (const std::string& file : GoldenFiles("tokenizer.jsonl")) {
    int count = 0;
    for (const nlohmann::json& golden : ReadJsonLines(file)) {
      const std::string text = TextOf(golden);
      ASSERT_EQ(tokenizer.Encode(text), golden.at("ids").get<Ids>())
          << file << " " << golden.at("tag") << ": " << text.substr(0, 200);
      ++count;
    }
    std::printf("%s: %d cases\n", file.c_str(), count);
  }
}

// Kills: a marker in ordinary text that becomes control, a control segment that stays text.
TEST(Tokenizer, ChatSegments) {
  const auto path = SharedPath("golden/chat.jsonl");
  if (!path) return;
  const Tokenizer tokenizer = LoadMicro();
  for (const nlohmann::json& golden : ReadJsonLines(*path)) {
    if (golden.contains("error")) continue;
    Ids ids;
    for (const nlohmann::json& segment : golden.at("segments")) {
      const auto text = segment.at("text").get<std::string>();
      const Ids part = segment.at("special").get<bool>() ? tokenizer.EncodeWithSpecials(text)
                                                         : tokenizer.Encode(text);
      ids.insert(ids.end(), part.begin(), part.end());
    }
    ASSERT_EQ(ids, golden.at("ids").get<Ids>()) << golden.at("tag");
  }
}

// Kills: the split rule looking across a control token ("  " before one is one piece, not two),
// nameless slots forgotten, the shorter of two names preferred.
TEST(Tokenizer, SpecialsInsideText) {
  const Tokenizer tokenizer = LoadMicro();
  const auto control = [&](const char* name) {
    return tokenizer.vocabulary().FindControl(name).value();
  };
  Ids expected = tokenizer.Encode("a  ");
  expected.push_back(control("<|open|>"));
  for (const std::int32_t id : tokenizer.Encode("< <|ope")) expected.push_back(id);
  expected.push_back(control("<|reserved_token_2600|>"));
  expected.push_back(control("[EOS]"));
  EXPECT_EQ(tokenizer.EncodeWithSpecials("a  <|open|>< <|ope<|reserved_token_2600|>[EOS]"),
            expected);
  EXPECT_EQ(control("<|reserved_token_2600|>"), 2600);
  for (const std::int32_t id : tokenizer.Encode("a<|open|>[EOS]<|reserved_token_2600|>")) {
    EXPECT_FALSE(tokenizer.vocabulary().is_control(id));
  }
  EXPECT_TRUE(tokenizer.Encode("").empty());
  EXPECT_TRUE(tokenizer.EncodeWithSpecials("").empty());
}

// Kills: control tokens looked for before the text is cut (the reference cuts first).
TEST(Tokenizer, SpecialAcrossACutIsText) {
  const Tokenizer tokenizer = LoadMicro();
  const std::string text = std::string(kMaxRunCharacters - 2, 'a') + "[EOS]";
  EXPECT_EQ(tokenizer.EncodeWithSpecials(text), tokenizer.Encode(text));
  const std::string whole = std::string(kMaxRunCharacters, 'a') + "[EOS]";
  EXPECT_EQ(tokenizer.EncodeWithSpecials(whole).back(), 2561);
}

// Kills: bytes lost or doubled between pieces, cuts or replacements, at the real vocabulary too.
TEST(Tokenizer, IdsDecodeToTheText) {
  std::vector<Tokenizer> tokenizers;
  tokenizers.push_back(LoadMicro());
  if (const auto real = SharedPath("real/kimi-tokenizer/tiktoken.model")) {
    tokenizers.push_back(FromRanks(*real));
    EXPECT_EQ(tokenizers.back().vocabulary().size(), 163'584);
  }
  std::mt19937 random = PrintedSeed();
  for (const Tokenizer& tokenizer : tokenizers) {
    for (int round = 0; round < 200; ++round) {
      std::string bytes;
      for (std::uint32_t left = random() % 60; left > 0; --left) {
        const bool ascii = random() % 2 == 0;
        bytes += static_cast<char>(ascii ? 32 + random() % 95 : random() % 256);
      }
      const Ids ids = tokenizer.Encode(bytes);
      ASSERT_EQ(DecodeText(tokenizer.vocabulary(), ids), ReplaceIllFormed(bytes));
    }
  }
}

std::string Repeat(const std::string& unit, std::size_t at_least) {
  std::string text;
  while (text.size() < at_least) text += unit;
  return text;
}

// Kills: matching that runs into a limit or a stack of the regex engine: longer than the runs of
// 25,000 that the guard lets pass, of each kind of character.
TEST(Tokenizer, LongRunsOfEveryKind) {
  const Tokenizer tokenizer = LoadMicro();
  for (const std::string unit : {"a", "A", " ", "\n", "!", "1", "中", "あ", "\u0301", "é", "\u3000",
                                 " \n", "aA", "あA", "\x1c", "😀", "a'"}) {
    const std::string text = Repeat(unit, 110'000);
    ASSERT_EQ(DecodeBytes(tokenizer.vocabulary(), tokenizer.Encode(text)), text) << unit;
  }
}

// Kills: quadratic merging (this would take an hour), at the real vocabulary where it is there.
TEST(Tokenizer, AMebibyteOfOneCharacter) {
  const auto real = SharedPath("real/kimi-tokenizer/tiktoken.model");
  const Tokenizer tokenizer = real ? FromRanks(*real) : LoadMicro();
  for (const std::string unit : {"a", " ", "中"}) {
    const std::string text = Repeat(unit, 1 << 20);
    ASSERT_EQ(DecodeBytes(tokenizer.vocabulary(), tokenizer.Encode(text)), text) << unit;
  }
}

// Kills: members that point into the tokenizer they were moved out of.
TEST(Tokenizer, Moves) {
  Tokenizer first = LoadMicro();
  const Ids expected = first.Encode("hello world");
  const Tokenizer second = std::move(first);
  EXPECT_EQ(second.Encode("hello world"), expected);
}

}  // namespace
}  // namespace k3::runtime::testing
