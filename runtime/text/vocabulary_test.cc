#include "runtime/text/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/text/testing.h"

namespace k3::runtime::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string RankFault(const std::string& text) {
  return MessageOf(RankTable::Parse(text, "t.model"));
}

// Kills: a lenient reader: each line is one kind of damage.
TEST(RankTable, NamesFileLineAndFault) {
  const std::string good = RankFile({"ab"});
  EXPECT_EQ(RankFault(good), "");
  EXPECT_EQ(RankFault(good.substr(0, good.size() - 1)), "") << "the last line may lack its end";
  const std::pair<const char*, const char*> faults[] = {
      {"YWJj", "t.model:258: no space"},
      {"YWJj\t257", "t.model:258: no space"},
      {"", "t.model:258: no space"},
      {"YWJ 257", "t.model:258: the token is not valid base64"},
      {" 257", "t.model:258: the token is not valid base64"},
      {"YWJj ", "t.model:258: the rank \"\""},
      {"YWJj 257x", "t.model:258: the rank \"257x\""},
      {"YWJj  257", "t.model:258: the rank \" 257\""},
      {"YWJj -1", "t.model:258: the rank \"-1\""},
      {"YWJj 99999999999999", "t.model:258: the rank \"99999999999999\""},
      {"YWJj 257\r", "t.model:258: the rank \"257\r\""},
      {"YWJj 256", "t.model:258: rank 256 was already given in line 257"},
      {"YWJj 258", "t.model:258: rank 258 follows a gap: rank 257 is in no line"},
      {"YWI= 257", "t.model:258: the token was already given in line 257"},
  };
  for (const auto& [line, fault] : faults) {
    EXPECT_THAT(RankFault(good + line + "\n"), HasSubstr(fault)) << line;
  }
  EXPECT_THAT(RankFault(""), HasSubstr("t.model:1: the file is empty"));
  EXPECT_THAT(RankFault("YWI= 0\n"), HasSubstr("no line gives the byte 0x00"));
}

// Kills: stopping at the first fault, or a page of them for a file of the wrong kind.
TEST(RankTable, ReportsTenFaults) {
  const std::string three = RankFault(RankFile({}) + "x 256\nYWI= y\nz\n");
  EXPECT_THAT(three, AllOf(HasSubstr(":257: "), HasSubstr(":258: "), HasSubstr(":259: ")));
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "nonsense\n";
  EXPECT_THAT(RankFault(many), AllOf(HasSubstr(":10: "), Not(HasSubstr(":11: ")),
                                     HasSubstr("more faults are not listed")));
}

// Kills: an order of lines taken for the order of ranks.
TEST(RankTable, LinesMayComeInAnyOrder) {
  const RankTable table =
      RankTable::Parse(Base64("ab") + " 256\n" + RankFile({}), "t.model").value();
  EXPECT_EQ(table.size(), 257);
  EXPECT_EQ(table.bytes(256), "ab");
  EXPECT_EQ(table.Find("ab"), 256);
  EXPECT_EQ(table.Find("abc"), std::nullopt);
  EXPECT_EQ(table.Find(""), std::nullopt);
  EXPECT_EQ(table.ByteId('b'), 'b');
}

// Kills: byte value taken for id, control slots counted wrongly, the `special` flag ignored.
TEST(Vocabulary, LoadsACheckpoint) {
  const Vocabulary vocabulary = Vocabulary::Load(kMicro).value();
  EXPECT_EQ(vocabulary.size(), 2816);
  EXPECT_EQ(vocabulary.bytes(0), "!");
  EXPECT_EQ(vocabulary.base().ByteId('a'), 64);
  EXPECT_EQ(vocabulary.eos_id(), 2561);
  EXPECT_EQ(vocabulary.FindControl("<|end_of_msg|>"), 2562);
  EXPECT_EQ(vocabulary.FindControl("hello"), std::nullopt);
  EXPECT_EQ(vocabulary.bytes(2568), "<|reserved_token_2568|>");
  EXPECT_FALSE(vocabulary.is_control(2559));
  EXPECT_TRUE(vocabulary.is_control(2560));
  EXPECT_TRUE(vocabulary.is_special(2562));
  EXPECT_FALSE(vocabulary.is_special(2563));
  EXPECT_TRUE(vocabulary.is_special(2568));
  EXPECT_FALSE(vocabulary.is_special(2816));
}

// Kills: a table that overflows or slows down at real size.
TEST(Vocabulary, LoadsTheRealRanks) {
  const auto path = SharedPath("real/kimi-tokenizer/tiktoken.model");
  if (!path) return;
  const Vocabulary vocabulary = Vocabulary::LoadRanks(*path).value();
  EXPECT_EQ(vocabulary.size(), 163'584);
  EXPECT_EQ(vocabulary.eos_id(), std::nullopt);
  EXPECT_FALSE(vocabulary.is_control(163'583));
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    ASSERT_EQ(vocabulary.base().Find(vocabulary.bytes(id)), id);
  }
}

// Kills: an error without the path, or only the first of two missing files.
TEST(Vocabulary, NamesMissingFiles) {
  const TempFolder folder;
  const Result<Vocabulary> both = Vocabulary::Load(folder.path());
  EXPECT_THAT(MessageOf(both), AllOf(HasSubstr(folder.path("tiktoken.model")),
                                     HasSubstr(folder.path("tokenizer_config.json"))));
  EXPECT_EQ(both.error().code, Code::kNotFound);
  folder.Write("tiktoken.model", RankFile({}));
  EXPECT_THAT(
      MessageOf(Vocabulary::Load(folder.path())),
      AllOf(Not(HasSubstr("tiktoken.model")), HasSubstr(folder.path("tokenizer_config.json"))));
  EXPECT_THAT(MessageOf(Vocabulary::LoadRanks("no/such/file")), HasSubstr("no/such/file"));
}

std::string ConfigFault(const std::string& json) {
  return MessageOf(SpecialTokens::Parse(json, "c.json", 256));
}

// Kills: a default for an absent field, an id outside of the slots, one fault at a time.
TEST(SpecialTokens, NamesEveryFault) {
  const std::string eos = R"("257": {"content": "[EOS]", "special": true})";
  EXPECT_EQ(ConfigFault(R"({"added_tokens_decoder": {)" + eos + R"(}, "eos_token": "[EOS]"})"), "");
  EXPECT_THAT(ConfigFault("{"), HasSubstr("c.json: is not a JSON object"));
  EXPECT_THAT(ConfigFault("{}"),
              AllOf(HasSubstr("added_tokens_decoder is absent"), HasSubstr("eos_token is absent")));
  const std::string faults = ConfigFault(R"({"added_tokens_decoder": {)" + eos + R"(,
      "255": {"content": "a", "special": true}, "512": {"content": "b", "special": true},
      "x": {"content": "c", "special": true}, "300": {"special": true}, "301": {"content": "d"},
      "302": {"content": "", "special": false}, "303": 7,
      "304": {"content": "[EOS]", "special": false}}, "eos_token": "[EOT]"})");
  for (const char* part :
       {"[\"255\"]: the id is outside of 256..511", "[\"512\"]: the id", "[\"x\"]: the id",
        "[\"300\"].content", "[\"301\"].special", "[\"302\"].content", "[\"303\"].content",
        "ids 257 and 304 have the same content", "eos_token \"[EOT]\" is not the content"}) {
    EXPECT_THAT(faults, HasSubstr(part));
  }
}

}  // namespace
}  // namespace k3::runtime::testing
