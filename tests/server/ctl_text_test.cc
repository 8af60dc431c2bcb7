// What k3ctl shows and asks, without a server: choices and the request of generate.
#include <gmock/gmock.h>

#include "proto/k3serve/v1/inference.pb.h"
#include "server/ctl/choice_text.h"
#include "server/ctl/generate.h"

namespace k3::server::ctl {
namespace {

namespace pb = k3serve::v1;
using ::testing::HasSubstr;
using ::testing::Not;

// Kills: an option that lands in another field, or is sent when it was not given.
TEST(GenerateRequestTest, EveryOptionHasItsField) {
  GenerateCommand command;
  command.text = "hi";
  command.request_id = "mine";
  command.temperature = 0.5F;
  command.top_p = 0.9F;
  command.top_k = 40;
  command.min_p = 0.05F;
  command.presence_penalty = -1.0F;
  command.frequency_penalty = 1.0F;
  command.repetition_penalty = 1.5F;
  command.seed = 0;
  command.n = 3;
  command.logit_bias = {"7=-100", "8=2.5"};
  command.allowed_token_ids = {7, 8};
  command.max_tokens = 30;
  command.min_tokens = 2;
  command.stop_strings = {"\n", ","};
  command.stop_token_ids = {5};
  command.include_stop = true;
  command.logprobs = 0;
  command.priority = -4;
  command.queue_timeout_ms = 250;
  const auto request = ToRequest(command);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request.value().ShortDebugString(),
            "request_id: \"mine\" text: \"hi\" sampling { temperature: 0.5 top_p: 0.9 top_k: 40 "
            "min_p: 0.05 presence_penalty: -1 frequency_penalty: 1 repetition_penalty: 1.5 seed: 0 "
            "n: 3 logit_bias { key: 7 value: -100 } logit_bias { key: 8 value: 2.5 } "
            "allowed_token_ids: 7 allowed_token_ids: 8 } stop { max_new_tokens: 30 min_new_tokens: "
            "2 stop_strings: \"\\n\" stop_strings: \",\" stop_token_ids: 5 include_stop: true } "
            "output { logprobs: 0 } scheduling { priority: -4 queue_timeout_ms: 250 }");
  GenerateCommand bare;
  bare.text = "hi";
  EXPECT_EQ(ToRequest(bare).value().ShortDebugString(), "text: \"hi\" sampling { } stop { }");
}

// Kills: a bias that is half read ("7=1x" as 1), the first fault alone.
TEST(GenerateRequestTest, FaultsAreToldTogether) {
  GenerateCommand command;
  command.text = "hi";
  command.prompt_ids = {1};
  command.logit_bias = {"7=1x", "-7=1", "7", "=1", "9=1"};
  command.timeout_seconds = 0;
  const auto request = ToRequest(command);
  ASSERT_FALSE(request.ok());
  for (const char* word : {"7=1x:", "-7=1:", "bias 7:", " =1:", "--timeout", "--prompt-ids"}) {
    EXPECT_THAT(request.error().message, HasSubstr(word));
  }
  EXPECT_THAT(request.error().message, Not(HasSubstr("9=1")));
}

// Kills: half a character or a control byte on the terminal, a quote that ends the text, characters
// of people escaped as bytes.
TEST(ChoiceTextTest, BytesAreQuoted) {
  EXPECT_EQ(Quoted(" a\"\\\n\t\x1b"), "\" a\\\"\\\\\\n\\t\\x1b\"");
  EXPECT_EQ(Quoted("é€😀"), "\"é€😀\"");
  EXPECT_EQ(Quoted("\xf0\x9f\x98"), "\"\\xf0\\x9f\\x98\"");
  EXPECT_EQ(Quoted("a\xff\xc3(\x80"), "\"a\\xff\\xc3(\\x80\"");
}

pb::Logprob Token(std::uint32_t id, const std::string& bytes, float logprob) {
  pb::Logprob token;
  token.set_token_id(id);
  token.set_bytes(bytes);
  token.set_logprob(logprob);
  return token;
}

// Kills: a trailing text that is lost, a choice without its number or its reason, log probabilities
// of another token, a control token as "".
TEST(ChoiceTextTest, EventsMakeAChoice) {
  pb::Choice choice;
  pb::Delta delta;
  delta.set_index(2);
  delta.set_text("so ");
  pb::TokenLogprobs& logprobs = *delta.add_logprobs();
  *logprobs.mutable_chosen() = Token(11, "so ", -0.5F);
  *logprobs.add_top() = Token(11, "so ", -0.5F);
  *logprobs.add_top() = Token(900, "", -1.25F);
  Add(delta, choice);
  pb::Finished finished;
  finished.set_index(2);
  finished.set_reason(pb::FINISH_REASON_STOP_STRING);
  finished.set_stop_string("\n");
  finished.set_text("far");
  End(finished, choice);
  EXPECT_EQ(ChoiceText(choice),
            "--- choice 2: FINISH_REASON_STOP_STRING \"\\n\"\n"
            "so far\n"
            "  11 \"so \" -0.5000   of: 11 \"so \" -0.5000, 900 -1.2500\n");
}

}  // namespace
}  // namespace k3::server::ctl
