// Stop strings, choices, log probabilities and the unary surface, on exact streams of tokens.
#include <future>

#include <gmock/gmock.h>

#include "tests/server/front_end_fixture.h"

namespace k3::server::testing {
namespace {

using runtime::FinishReason;

class ChoicesTest : public FrontEndTest {
 protected:
  ChoicesTest() { BecomeReady(); }

  std::future<Collected> GenerateLater(const pb::GenerateRequest& request) {
    return std::async(std::launch::async, [this, request] { return Generate(request); });
  }
  // One id per byte, so that every cut is possible.
  std::vector<runtime::Token> ByteIds(const std::string& text) const {
    std::vector<runtime::Token> ids;
    for (const char c : text) {
      for (runtime::Token id = 0; id < 256; ++id) {
        if (model_->tokenizer.vocabulary().bytes(id) == std::string(1, c)) ids.push_back(id);
      }
    }
    return ids;
  }
};

pb::GenerateRequest StopRequest(const std::string& stop) {
  pb::GenerateRequest request = TextRequest("x");
  request.mutable_stop()->add_stop_strings(stop);
  request.mutable_output()->set_want_token_ids(true);
  return request;
}

// Kills: a stop string that is shown, overshoot that is shown or counted, the end not told to the
// engine, the wrong reason, tokens counted only in part.
TEST_F(ChoicesTest, AStopStringEndsTheChoice) {
  auto later = GenerateLater(StopRequest("END"));
  ASSERT_TRUE(engine_->WaitForRequests(1));
  EXPECT_TRUE(engine_->request(0).ends_by_text);
  engine_->Start(0);
  engine_->Put(0, ByteIds("so EN"));
  engine_->Put(0, ByteIds("ENDafter"));
  ASSERT_TRUE(engine_->WaitForEnd(0));
  const Collected got = later.get();
  ASSERT_TRUE(got.status.ok());
  EXPECT_EQ(got.text(), "so EN");
  const pb::Finished& finished = got.events[got.events.size() - 2].finished();
  EXPECT_EQ(finished.reason(), pb::FINISH_REASON_STOP_STRING);
  EXPECT_EQ(finished.stop_string(), "END");
  EXPECT_EQ(got.events.back().completed().usage().completion_tokens(), 8U);
  std::uint32_t counted = 0, ids = 0;
  for (const pb::GenerateEvent& event : got.events) {
    counted += event.delta().num_tokens();
    ids += static_cast<std::uint32_t>(event.delta().token_ids_size());
  }
  EXPECT_EQ(counted, 8U);
  EXPECT_EQ(ids, 8U);
}

// Kills: text held back for a stop string lost at the end, a match taken from the engine's last
// batch as length, include_stop ignored, a stop before min_new_tokens.
TEST_F(ChoicesTest, EdgesOfStopStrings) {
  auto later = GenerateLater(StopRequest("END"));
  ASSERT_TRUE(engine_->WaitForRequests(1));
  engine_->Put(0, ByteIds("the EN"));
  engine_->Finish(0, FinishReason::kLengthMaxTokens);
  EXPECT_EQ(later.get().text(), "the EN");

  pb::GenerateRequest shown = StopRequest("END");
  shown.mutable_stop()->set_include_stop(true);
  shown.mutable_stop()->set_min_new_tokens(4);
  later = GenerateLater(shown);
  ASSERT_TRUE(engine_->WaitForRequests(2));
  engine_->Put(1, ByteIds("END.ENDmore"));
  ASSERT_TRUE(engine_->WaitForEnd(1));
  const Collected got = later.get();
  EXPECT_EQ(got.text(), "END.END");
  EXPECT_EQ(got.events.back().completed().usage().completion_tokens(), 7U);
}

// Kills: choices mixed up, Completed before the last Finished, the prompt counted per choice,
// Started told twice, a cancel that reaches only the first.
TEST_F(ChoicesTest, EachChoiceHasItsIndex) {
  pb::GenerateRequest request = TextRequest("hello");
  request.mutable_sampling()->set_n(3);
  auto later = GenerateLater(request);
  ASSERT_TRUE(engine_->WaitForRequests(3));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(engine_->request(i).sampling.choice, static_cast<std::uint32_t>(i));
    engine_->Start(i);
  }
  for (const int i : {2, 0, 1}) {
    engine_->Put(i, ByteIds("abc" + std::to_string(i)));
    engine_->Finish(i, FinishReason::kStopEos);
  }
  const Collected got = later.get();
  ASSERT_TRUE(got.status.ok());
  std::map<std::uint32_t, std::string> texts;
  int started = 0, finished = 0;
  for (const pb::GenerateEvent& event : got.events) {
    started += event.has_started() ? 1 : 0;
    finished += event.has_finished() ? 1 : 0;
    if (event.has_delta()) texts[event.delta().index()] += event.delta().text();
  }
  EXPECT_EQ(texts, (std::map<std::uint32_t, std::string>{{0, "abc0"}, {1, "abc1"}, {2, "abc2"}}));
  EXPECT_EQ(started, 1);
  EXPECT_EQ(finished, 3);
  ASSERT_TRUE(got.events.back().has_completed());
  const pb::Usage& usage = got.events.back().completed().usage();
  EXPECT_EQ(usage.prompt_tokens(), Ids("hello").size());
  EXPECT_EQ(usage.completion_tokens(), 12U);
}

// Kills: a failed choice that leaves the others running to their end, a status without its reason.
TEST_F(ChoicesTest, AFailedChoiceEndsTheCall) {
  pb::GenerateRequest request = TextRequest("hello");
  request.mutable_sampling()->set_n(2);
  auto later = GenerateLater(request);
  ASSERT_TRUE(engine_->WaitForRequests(2));
  engine_->Finish(1, FinishReason::kError, "not finite");
  ASSERT_TRUE(engine_->WaitForEnd(0));
  const Collected got = later.get();
  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(got.reason, "ENGINE_ERROR");
}

// Kills: log probabilities out of step with tokens when text is held back, bytes of another token,
// an infinity on the wire.
TEST_F(ChoicesTest, LogprobsGoWithTheirTokens) {
  pb::GenerateRequest request = StopRequest("zzz");
  request.mutable_output()->set_logprobs(1);
  auto later = GenerateLater(request);
  ASSERT_TRUE(engine_->WaitForRequests(1));
  EXPECT_EQ(engine_->request(0).sampling.logprobs, 1);
  const std::vector<runtime::Token> ids = ByteIds("azzb");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const float chosen = i == 3 ? -INFINITY : -static_cast<float>(i);
    engine_->PutOne(0, runtime::NewToken{ids[i], runtime::Logprobs{chosen, {{ids[0], -0.5F}}}});
  }
  engine_->Finish(0, FinishReason::kLengthMaxTokens);
  const Collected got = later.get();
  std::vector<pb::TokenLogprobs> all;
  for (const pb::GenerateEvent& event : got.events) {
    all.insert(all.end(), event.delta().logprobs().begin(), event.delta().logprobs().end());
  }
  ASSERT_EQ(all.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i].chosen().bytes(), std::string(1, "azzb"[i]));
    EXPECT_EQ(all[i].chosen().logprob(), i == 3 ? -9999 : -static_cast<float>(i));
    ASSERT_EQ(all[i].top_size(), 1);
    EXPECT_EQ(all[i].top(0).bytes(), "a");
  }
}

// Kills: a unary answer that lacks what the stream has.
TEST_F(ChoicesTest, CompleteAnswersAtOnce) {
  pb::GenerateRequest request = StopRequest("END");
  request.mutable_sampling()->set_n(2);
  auto later = std::async(std::launch::async, [this, request] {
    grpc::ClientContext context;
    pb::GenerateResult result;
    EXPECT_TRUE(stub_->Complete(&context, request, &result).ok());
    return result;
  });
  ASSERT_TRUE(engine_->WaitForRequests(2));
  engine_->Start(0);
  engine_->Put(0, ByteIds("one"));
  engine_->Put(1, ByteIds("twoEND"));
  ASSERT_TRUE(engine_->WaitForEnd(1));
  engine_->Finish(0, FinishReason::kLengthMaxTokens);
  const pb::GenerateResult result = later.get();
  ASSERT_EQ(result.choices_size(), 2);
  EXPECT_EQ(result.choices(0).text(), "one");
  EXPECT_EQ(result.choices(0).reason(), pb::FINISH_REASON_LENGTH_MAX_TOKENS);
  EXPECT_EQ(result.choices(1).text(), "two");
  EXPECT_EQ(result.choices(1).stop_string(), "END");
  EXPECT_EQ(result.choices(1).token_ids_size(), 6);
  EXPECT_EQ(result.usage().completion_tokens(), 9U);
  EXPECT_EQ(result.started().prompt_tokens(), Ids("x").size());
}

// Kills: each new field unchecked, zero taken for unset, a huge n that allocates before it is
// refused, prompt_logprobs silently ignored.
TEST_F(ChoicesTest, BadOptionsAreNamed) {
  const auto expect = [this](const std::string& reason, const auto& change,
                             grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT) {
    pb::GenerateRequest request = TextRequest("x");
    change(request);
    const Collected got = Generate(request);
    EXPECT_EQ(got.reason, reason);
    EXPECT_EQ(got.status.error_code(), code) << reason;
  };
  using Request = pb::GenerateRequest;
  expect("INVALID_TOP_K", [](Request& r) { r.mutable_sampling()->set_top_k(-1); });
  expect("INVALID_MIN_P", [](Request& r) { r.mutable_sampling()->set_min_p(NAN); });
  expect("INVALID_PENALTY", [](Request& r) { r.mutable_sampling()->set_presence_penalty(2.1F); });
  expect("INVALID_PENALTY", [](Request& r) { r.mutable_sampling()->set_frequency_penalty(NAN); });
  expect("INVALID_PENALTY", [](Request& r) { r.mutable_sampling()->set_repetition_penalty(0); });
  expect("INVALID_N", [](Request& r) { r.mutable_sampling()->set_n(0); });
  expect("TOO_MANY_CHOICES", [](Request& r) { r.mutable_sampling()->set_n(4'000'000'000U); });
  expect("INVALID_LOGIT_BIAS",
         [](Request& r) { (*r.mutable_sampling()->mutable_logit_bias())[3] = 101; });
  expect("TOKEN_ID_OUT_OF_RANGE",
         [](Request& r) { (*r.mutable_sampling()->mutable_logit_bias())[1U << 30U] = 1; });
  expect("TOKEN_ID_OUT_OF_RANGE",
         [](Request& r) { r.mutable_sampling()->add_allowed_token_ids(1U << 30U); });
  expect("INVALID_LOGPROBS", [](Request& r) { r.mutable_output()->set_logprobs(21); });
  expect("INVALID_REQUEST_ID", [](Request& r) { r.set_request_id(std::string(257, 'x')); });
  expect("INVALID_STOP", [](Request& r) { r.mutable_stop()->add_stop_strings(""); });
  expect("INVALID_MIN_NEW_TOKENS", [](Request& r) {
    r.mutable_stop()->set_min_new_tokens(3);
    r.mutable_stop()->set_max_new_tokens(2);
  });
  expect(
      "PROMPT_LOGPROBS_NOT_BUILT", [](Request& r) { r.mutable_output()->set_prompt_logprobs(0); },
      grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace k3::server::testing
