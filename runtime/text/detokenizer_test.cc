#include "runtime/text/detokenizer.h"

#include <cstdio>

#include <gtest/gtest.h>

#include "runtime/text/testing.h"
#include "runtime/text/utf8.h"

namespace k3::runtime::testing {
namespace {

using Ids = std::vector<std::int32_t>;

std::vector<std::string> StreamOf(const Vocabulary& vocabulary, const Ids& ids) {
  Detokenizer detokenizer(vocabulary);
  std::vector<std::string> stream;
  for (const std::int32_t id : ids) stream.push_back(detokenizer.Push(id));
  stream.push_back(detokenizer.Flush());
  return stream;
}

// Kills: half a character emitted, a tail held that can never become one, one U+FFFD per byte, a
// tail lost at the end, nameless control tokens without text.
TEST(Detokenizer, GoldenStreams) {
  const Tokenizer tokenizer = LoadMicro();
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  for (const std::string& file : GoldenFiles("detokenize.jsonl")) {
    for (const nlohmann::json& golden : ReadJsonLines(file)) {
      const Ids ids = golden.at("ids").get<Ids>();
      EXPECT_EQ(Base64(DecodeBytes(vocabulary, ids)), golden.at("b64")) << golden.at("tag");
      EXPECT_EQ(DecodeText(vocabulary, ids), golden.at("text")) << golden.at("tag");
      EXPECT_EQ(StreamOf(vocabulary, ids), golden.at("stream").get<std::vector<std::string>>())
          << golden.at("tag");
    }
  }
}

// Kills: a stream whose parts are not well-formed alone, or do not add up to the whole.
TEST(Detokenizer, RandomIdsAddUpToTheWhole) {
  std::mt19937 random = PrintedSeed();
  const Tokenizer tokenizer = LoadMicro();
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  for (int round = 0; round < 500; ++round) {
    // The 256 single bytes are rare among 2,816 ids, and all that is hard: take them half the time.
    Ids ids(random() % 40);
    for (std::int32_t& id : ids) {
      id = random() % 2 == 0 ? vocabulary.base().ByteId(static_cast<std::uint8_t>(random()))
                             : static_cast<std::int32_t>(random() % 2816);
    }
    std::string sum;
    for (const std::string& part : StreamOf(vocabulary, ids)) {
      ASSERT_FALSE(FirstIllFormed(part));
      sum += part;
    }
    ASSERT_EQ(sum, DecodeText(vocabulary, ids));
  }
}

// Kills: hiding every control token (K3's open, close and sep are text to a client), a character
// torn apart by a hidden token, a Flush that leaves its tail to the next stream.
TEST(Detokenizer, HidesOnlySpecialTokens) {
  const Tokenizer tokenizer = LoadMicro();
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  const std::int32_t eos = vocabulary.FindControl("[EOS]").value();
  const std::int32_t open = vocabulary.FindControl("<|open|>").value();
  const std::int32_t first = vocabulary.base().ByteId(0xC3);
  const std::int32_t second = vocabulary.base().ByteId(0xA9);
  Detokenizer hiding(vocabulary, SpecialText::kHidden);
  EXPECT_EQ(hiding.Push(open), "<|open|>");
  EXPECT_EQ(hiding.Push(first), "");
  EXPECT_EQ(hiding.Push(eos), "");
  EXPECT_EQ(hiding.Push(second), "é");
  EXPECT_EQ(hiding.Push(first), "");
  EXPECT_EQ(hiding.Flush(), "\uFFFD");
  EXPECT_EQ(hiding.Flush(), "");
  EXPECT_EQ(hiding.Push(second), "\uFFFD");
  Detokenizer showing(vocabulary);
  EXPECT_EQ(showing.Push(first), "");
  EXPECT_EQ(showing.Push(eos), "\uFFFD[EOS]");
}

// Kills: an id out of range read as some other token.
TEST(DetokenizerDeathTest, RefusesUnknownIds) {
  const Tokenizer tokenizer = LoadMicro();
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  EXPECT_FALSE(vocabulary.contains(-1));
  EXPECT_TRUE(vocabulary.contains(0));
  EXPECT_TRUE(vocabulary.contains(2815));
  EXPECT_FALSE(vocabulary.contains(2816));
  Detokenizer detokenizer(vocabulary);
  EXPECT_DEATH(detokenizer.Push(2816), "CHECK failed");
  EXPECT_DEATH(detokenizer.Push(-1), "CHECK failed");
}

}  // namespace
}  // namespace k3::runtime::testing
