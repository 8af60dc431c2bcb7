#include "runtime/text/stop_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/text/testing.h"

namespace k3::runtime::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Kills: only one of the sources read ([EOS] of tokenizer_config is in no other).
TEST(StopIds, OfACheckpoint) {
  const Vocabulary vocabulary = Vocabulary::Load(kMicro).value();
  EXPECT_THAT(LoadStopIds(kMicro, vocabulary).value(), ElementsAre(2561, 2562));
}

// Kills: a list unread, duplicates, an order, a missing generation_config.json as a fault.
TEST(StopIds, UnitesNumbersAndLists) {
  const Vocabulary vocabulary = Vocabulary::Load(kMicro).value();
  const TempFolder folder;
  folder.Write("config.json", R"({"eos_token_id": [2600, 7, 2561], "text_config": {}})");
  EXPECT_THAT(LoadStopIds(folder.path(), vocabulary).value(), ElementsAre(7, 2561, 2600));
  folder.Write("generation_config.json", R"({"eos_token_id": 3})");
  EXPECT_THAT(LoadStopIds(folder.path(), vocabulary).value(), ElementsAre(3, 7, 2561, 2600));
  folder.Write("generation_config.json", "{}");
  EXPECT_THAT(LoadStopIds(folder.path(), vocabulary).value(), ElementsAre(7, 2561, 2600));
}

// Kills: a default for an absent id, ids no token has, a fault at a time.
TEST(StopIds, NamesEveryFault) {
  const Vocabulary vocabulary = Vocabulary::Load(kMicro).value();
  const TempFolder folder;
  EXPECT_THAT(MessageOf(LoadStopIds(folder.path(), vocabulary)),
              HasSubstr(folder.path("config.json")));
  folder.Write("config.json", R"({"eos_token_id": [-1, 2816, "x", 1.5, 5]})");
  folder.Write("generation_config.json", "[");
  EXPECT_THAT(MessageOf(LoadStopIds(folder.path(), vocabulary)),
              AllOf(HasSubstr("holds -1, expected a token id in 0..2815"), HasSubstr("holds 2816"),
                    HasSubstr("holds \"x\""), HasSubstr("holds 1.5"),
                    HasSubstr("generation_config.json: is not a JSON object")));
  folder.Write("config.json", "{}");
  EXPECT_THAT(MessageOf(LoadStopIds(folder.path(), vocabulary)),
              HasSubstr("config.json: eos_token_id is absent"));
  folder.Write("config.json", R"({"eos_token_id": []})");
  EXPECT_THAT(MessageOf(LoadStopIds(folder.path(), vocabulary)), HasSubstr("is an empty list"));
}

}  // namespace
}  // namespace k3::runtime::testing
