// Bad requests: each has its named reason and status, and the server takes the next one.
#include <cmath>
#include <limits>

#include "tests/server/front_end_fixture.h"

namespace k3::server::testing {
namespace {

class AdmissionTest : public FrontEndTest {
 protected:
  AdmissionTest() { BecomeReady(); }

  void ExpectRefused(const pb::GenerateRequest& request, const std::string& reason,
                     const std::string& part_of_message,
                     grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT) {
    const Collected got = Generate(request);
    EXPECT_EQ(got.status.error_code(), code) << reason;
    EXPECT_EQ(got.reason, reason);
    EXPECT_NE(got.status.error_message().find(part_of_message), std::string::npos)
        << got.status.error_message();
    EXPECT_NE(got.status.error_details().find(reason), std::string::npos);
    EXPECT_TRUE(got.events.empty());
  }
};

pb::GenerateRequest IdsRequest(const std::vector<std::uint32_t>& ids) {
  pb::GenerateRequest request;
  request.mutable_token_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return request;
}

// Kills: an empty prompt that reaches the engine, in any of its three forms.
TEST_F(AdmissionTest, EmptyPrompt) {
  ExpectRefused({}, "EMPTY_PROMPT", "prompt");
  ExpectRefused(TextRequest(""), "EMPTY_PROMPT", "prompt");
  ExpectRefused(IdsRequest({}), "EMPTY_PROMPT", "prompt");
}

// Kills: ids that only the weights or only the tokenizer know, a sign lost in conversion, an index
// off by one.
TEST_F(AdmissionTest, IdsOutOfRange) {
  const auto size = static_cast<std::uint32_t>(model_->tokenizer.vocabulary().size());
  ExpectRefused(IdsRequest({0, 1, size}), "TOKEN_ID_OUT_OF_RANGE",
                "token_ids[2]: " + std::to_string(size));
  ExpectRefused(IdsRequest({0xFFFFFFFF}), "TOKEN_ID_OUT_OF_RANGE", "token_ids[0]: 4294967295");
  pb::GenerateRequest stop = TextRequest("x");
  stop.mutable_stop()->add_stop_token_ids(size);
  ExpectRefused(stop, "TOKEN_ID_OUT_OF_RANGE", "stop_token_ids[0]");
}

// Kills: a limit off by one on either side, an answer without the numbers.
TEST_F(AdmissionTest, ContextLength) {
  const int limit = engine_->info().max_model_len;
  ExpectRefused(IdsRequest(std::vector<std::uint32_t>(static_cast<std::size_t>(limit), 5)),
                "CONTEXT_LENGTH_EXCEEDED", "64 tokens, of which the prompt may take 63");
  pb::GenerateRequest both = IdsRequest(std::vector<std::uint32_t>(60, 5));
  both.mutable_stop()->set_max_new_tokens(5);
  ExpectRefused(both, "CONTEXT_LENGTH_EXCEEDED", "requested 65");

  both.mutable_stop()->set_max_new_tokens(4);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, both);
  EXPECT_TRUE(engine_->WaitForRequests(1));
  context.TryCancel();
}

// Kills: comparisons that let NaN through, zero taken for unset, a range open at the wrong end.
TEST_F(AdmissionTest, Numbers) {
  for (const float bad : {NAN, -NAN, INFINITY, -1.0F}) {
    pb::GenerateRequest request = TextRequest("x");
    request.mutable_sampling()->set_temperature(bad);
    ExpectRefused(request, "INVALID_TEMPERATURE", "temperature");
  }
  for (const float bad : {NAN, 0.0F, -0.5F, 1.5F}) {
    pb::GenerateRequest request = TextRequest("x");
    request.mutable_sampling()->set_top_p(bad);
    ExpectRefused(request, "INVALID_TOP_P", "top_p");
  }
  for (const int bad : {0, -1, std::numeric_limits<int>::min()}) {
    pb::GenerateRequest request = TextRequest("x");
    request.mutable_stop()->set_max_new_tokens(bad);
    ExpectRefused(request, "INVALID_MAX_NEW_TOKENS", std::to_string(bad));
  }
}

// Kills: an answer that names one fault of two.
TEST_F(AdmissionTest, AllFaultsTogether) {
  pb::GenerateRequest request = TextRequest("");
  request.mutable_sampling()->set_temperature(-1);
  request.mutable_stop()->set_max_new_tokens(-5);
  ExpectRefused(request, "INVALID_TEMPERATURE", "max_new_tokens: -5");
  ExpectRefused(request, "INVALID_TEMPERATURE", "prompt: empty");
}

TEST_F(AdmissionTest, UnknownModel) {
  pb::GenerateRequest request = TextRequest("x");
  request.set_model("no-such-model");
  ExpectRefused(request, "MODEL_NOT_FOUND", "test-model, other-name", grpc::StatusCode::NOT_FOUND);
}

// Kills: INTERNAL "failed to parse" for broken UTF-8, a wrong offset, a server that dies of it.
TEST_F(AdmissionTest, BrokenUtf8AndBrokenMessages) {
  const Collected broken = GenerateBytes(std::string("\x1a\x05") + "abc\xC3(");  // text
  EXPECT_EQ(broken.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(broken.reason, "INVALID_UTF8");
  EXPECT_EQ(broken.status.error_message(), "text: not UTF-8 at byte 3");
  EXPECT_EQ(GenerateBytes("\x12\x01\xFF").status.error_message(), "model: not UTF-8 at byte 0");
  EXPECT_EQ(GenerateBytes("\x1a\x7F"
                          "ab")
                .reason,
            "MALFORMED_MESSAGE");
  EXPECT_EQ(GenerateBytes("\xFF\xFF\xFF").reason, "MALFORMED_MESSAGE");
}

// Kills: a full queue told as a client's fault, a hint that is missing where waiting helps.
TEST_F(AdmissionTest, QueueFullAndDraining) {
  engine_->RefuseWith(
      runtime::Refusal{runtime::Refusal::Why::kQueueFull, "the queue is full", 1000});
  const Collected full = Generate(TextRequest("x"));
  EXPECT_EQ(full.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(full.reason, "QUEUE_FULL");
  EXPECT_EQ(full.retry_after, "1000");
  engine_->RefuseWith({});
  Drain();
  const Collected draining = Generate(TextRequest("x"));
  EXPECT_EQ(draining.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(draining.reason, "DRAINING");
}

// Kills: a tokenizer that makes control ids of a client's words, ids that do not come back as text.
TEST_F(AdmissionTest, TokenizeAndBack) {
  pb::TokenizeRequest request;
  request.set_text("hello <|im_end|> \xE9\x83\xAD");
  pb::TokenizeResponse ids;
  grpc::ClientContext first;
  ASSERT_TRUE(stub_->Tokenize(&first, request, &ids).ok());
  for (const std::uint32_t id : ids.token_ids()) {
    EXPECT_FALSE(model_->tokenizer.vocabulary().is_control(static_cast<std::int32_t>(id)));
  }
  pb::DetokenizeRequest back;
  *back.mutable_token_ids() = ids.token_ids();
  pb::DetokenizeResponse text;
  grpc::ClientContext second;
  ASSERT_TRUE(stub_->Detokenize(&second, back, &text).ok());
  EXPECT_EQ(text.text(), request.text());
  back.add_token_ids(0x7FFFFFFF);
  grpc::ClientContext third;
  EXPECT_EQ(stub_->Detokenize(&third, back, &text).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace k3::server::testing
