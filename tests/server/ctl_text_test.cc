// What k3ctl shows and asks, without a server: choices, the view of top, the request of generate.
#include <gmock/gmock.h>

#include "proto/k3serve/v1/control.pb.h"
#include "proto/k3serve/v1/inference.pb.h"
#include "server/ctl/choice_text.h"
#include "server/ctl/generate.h"
#include "server/ctl/top_view.h"

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

pb::LoadSnapshot Before() {
  pb::LoadSnapshot load;
  load.set_uptime_seconds(93784);
  load.set_prompt_tokens_computed_total(1000);
  load.set_prompt_tokens_cached_total(500);
  load.set_generation_tokens_total(2000);
  load.set_recomputed_tokens_total(3);
  load.set_preemptions_total(1);
  load.set_requests_finished_total(10);
  load.set_steps_total(100);
  load.set_step_seconds_total(5);
  return load;
}

pb::LoadSnapshot Now() {
  pb::LoadSnapshot load;
  load.set_uptime_seconds(93786);  // 2 s later
  load.set_running(12);
  load.set_max_num_seqs(64);
  load.set_paused(1);
  load.set_waiting(3);
  load.set_waiting_tokens(4096);
  load.set_pages_total(1000);
  load.set_pages_free(250);
  load.set_prompt_tokens_computed_total(1300);
  load.set_prompt_tokens_cached_total(600);
  load.set_generation_tokens_total(2050);
  load.set_recomputed_tokens_total(7);
  load.set_preemptions_total(2);
  load.set_requests_finished_total(15);
  load.set_steps_total(140);
  load.set_step_seconds_total(6);
  load.set_prefill_rows(256);
  load.set_expert_load_imbalance(1.375);
  pb::RequestLoad& request = *load.add_requests();
  request.set_request_id("gen-1\x1b[2J");
  request.set_state("running");
  request.set_prompt_tokens(321);
  request.set_generated_tokens(45);
  request.set_age_seconds(61.9);
  request.set_priority(-2);
  request.set_tenant("acme");
  return load;
}

// Kills: rates per snapshot instead of per second, a mean step over all time (42.9 ms), free pages
// shown as used, an escape sequence of a client's that reaches the terminal.
TEST(TopViewTest, ShowsTheDifference) {
  EXPECT_EQ(TopView(Before(), Now(), 200),
            "k3serve   up 1 d 02:03:06\n"
            "requests  12 of 64 running (1 paused), 3 waiting with 4096 tokens\n"
            "pages     [#######################.......] 750 of 1000 used (75.0 %)\n"
            "tokens    prompt 150.0/s computed, 50.0/s cached; generated 25.0/s; recomputed 2.0/s\n"
            "finished  2.5 requests/s; preempted 0.5/s\n"
            "step      25.0 ms mean, 20.0/s; prefill rows 256; expert imbalance 1.38\n"
            "\n"
            "REQUEST                               STATE      PROMPT  GENERATED       AGE  "
            "PRIORITY  TENANT\n"
            "gen-1?[2J                             running       321         45  00:01:01        "
            "-2  acme\n");
}

// Kills: a division by no time or no steps, negative rates after a restart, more pages free than
// there are as a bar without end, a line that wraps.
TEST(TopViewTest, WithoutRates) {
  const std::string same = TopView(Now(), Now(), 200);
  EXPECT_THAT(same, HasSubstr("generated -;"));
  EXPECT_THAT(same, HasSubstr("step      - mean, -;"));
  pb::LoadSnapshot restarted;
  restarted.set_uptime_seconds(1);
  restarted.set_pages_free(9);
  const std::string anew = TopView(Now(), restarted, 200);
  EXPECT_THAT(anew, HasSubstr("generated -;"));
  EXPECT_THAT(anew, HasSubstr("expert imbalance -\n"));
  EXPECT_THAT(anew, HasSubstr("[..............................] 0 of 0 used"));
  EXPECT_THAT(anew, Not(HasSubstr("REQUEST ")));
  std::istringstream lines(TopView(Before(), Now(), 20));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 20U);
}

}  // namespace
}  // namespace k3::server::ctl
