// What a client sees of one stream: order, merging, cancelling, characters.
#include <future>
#include <thread>

#include <gmock/gmock.h>

#include "tests/server/front_end_fixture.h"

namespace k3::server::testing {
namespace {

using runtime::FinishReason;

class StreamingTest : public FrontEndTest {
 protected:
  StreamingTest() { BecomeReady(); }

  std::future<Collected> GenerateLater(const pb::GenerateRequest& request) {
    return std::async(std::launch::async, [this, request] { return Generate(request); });
  }
};

// Kills: an event out of order, a seq that skips, Completed before the last delta, usage of another
// request, a seed that is not told.
TEST_F(StreamingTest, EventsComeInOrder) {
  auto later = GenerateLater(TextRequest("hello"));
  ASSERT_TRUE(engine_->WaitForRequests(1));
  EXPECT_EQ(engine_->request(0).prompt, Ids("hello"));
  engine_->Start(0);
  const std::vector<runtime::Token> out = Ids("some words follow");
  for (const runtime::Token token : out) {
    engine_->Put(0, {token});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  engine_->Finish(0, FinishReason::kStopToken);
  const Collected got = later.get();

  ASSERT_TRUE(got.status.ok()) << got.status.error_message();
  EXPECT_EQ(got.text(), "some words follow");
  ASSERT_GE(got.events.size(), 4U);
  std::uint32_t tokens = 0;
  for (std::size_t i = 0; i < got.events.size(); ++i) {
    EXPECT_EQ(got.events[i].seq(), i);
    EXPECT_EQ(got.events[i].request_id(), got.events[0].request_id());
    tokens += got.events[i].delta().num_tokens();
    const bool inner = i > 0 && i + 2 < got.events.size();
    EXPECT_EQ(got.events[i].has_delta(), inner) << i;
  }
  EXPECT_EQ(tokens, out.size());
  const pb::Started& started = got.events.front().started();
  EXPECT_EQ(started.prompt_tokens(), Ids("hello").size());
  EXPECT_EQ(started.sampling().temperature(), 1);
  EXPECT_EQ(started.sampling().top_p(), 1);
  EXPECT_EQ(started.sampling().seed(), engine_->request(0).sampling.seed);
  const pb::Finished& finished = got.events[got.events.size() - 2].finished();
  EXPECT_EQ(finished.reason(), pb::FINISH_REASON_STOP_TOKEN);
  EXPECT_EQ(finished.token(), 7U);
  const pb::Usage& usage = got.events.back().completed().usage();
  EXPECT_EQ(usage.completion_tokens(), out.size());
  EXPECT_EQ(usage.total_tokens(), usage.prompt_tokens() + usage.completion_tokens());
}

// Kills: half a character in a delta, its other half lost, held bytes dropped at the end.
TEST_F(StreamingTest, CharactersStayWhole) {
  const std::string text = "\xF0\x9F\x90\xAD\xE9\x83\xAD";
  std::vector<runtime::Token> bytes;  // one id per byte, so that every cut is inside a character
  for (const char c : text + "\xE9\x83") {
    for (runtime::Token id = 0; id < 256; ++id) {
      if (model_->tokenizer.vocabulary().bytes(id) == std::string(1, c)) bytes.push_back(id);
    }
  }
  ASSERT_EQ(bytes.size(), text.size() + 2);
  pb::GenerateRequest request = TextRequest("x");
  request.mutable_output()->set_want_token_ids(true);
  auto later = GenerateLater(request);
  ASSERT_TRUE(engine_->WaitForRequests(1));
  engine_->Start(0);
  for (const runtime::Token id : bytes) {
    engine_->Put(0, {id});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  engine_->Finish(0, FinishReason::kLengthMaxTokens);
  const Collected got = later.get();
  ASSERT_TRUE(got.status.ok());
  std::vector<runtime::Token> ids;
  for (const pb::GenerateEvent& event : got.events) {
    const std::string& part = event.delta().text();
    EXPECT_THAT(part, ::testing::AnyOf("", "\xF0\x9F\x90\xAD", "\xE9\x83\xAD", text));
    ids.insert(ids.end(), event.delta().token_ids().begin(), event.delta().token_ids().end());
  }
  EXPECT_EQ(ids, bytes);
  EXPECT_EQ(got.text(), text + "\xEF\xBF\xBD");
  EXPECT_EQ(got.events[got.events.size() - 2].finished().text(), "\xEF\xBF\xBD");
}

// Kills: a server that goes on computing for a client that left, one that frees the outbox before
// the engine's Finished, one that counts a cancel as a success; and, in some of the fifty orders in
// which cancel, write and last token can meet, one whose wake-up is lost so that it never ends.
TEST_F(StreamingTest, CancelReachesTheEngine) {
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, TextRequest("x"));
    ASSERT_TRUE(engine_->WaitForRequests(i + 1));
    engine_->Start(i);
    engine_->Put(i, Ids("a"));
    pb::GenerateEvent event;
    ASSERT_TRUE(reader->Read(&event));
    context.TryCancel();
    ASSERT_TRUE(engine_->WaitForEnd(i));
    while (reader->Read(&event)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
    ASSERT_TRUE(MetricBecomes("k3serve_requests_finished_total",
                              {{"api", "grpc"}, {"reason", "aborted"}}, i + 1));
  }
}

// Kills: a deadline that only the client notices.
TEST_F(StreamingTest, DeadlineReachesTheEngine) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  const auto reader = stub_->Generate(&context, TextRequest("x"));
  ASSERT_TRUE(engine_->WaitForRequests(1));
  EXPECT_TRUE(engine_->WaitForEnd(0));
  pb::GenerateEvent event;
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(MetricBecomes("k3serve_requests_finished_total",
                            {{"api", "grpc"}, {"reason", "deadline"}}, 1));
}

// Kills: one event per token held in memory for a reader that does not read, tokens lost in
// merging. The client reads nothing until 5 MB have been generated; the transport takes about 4 MB
// of it.
TEST_F(StreamingTest, SlowReaderGetsMergedEvents) {
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, TextRequest("x"));
  ASSERT_TRUE(engine_->WaitForRequests(1));
  engine_->Start(0);
  constexpr int kRounds = 60'000;
  const std::vector<runtime::Token> tokens = Ids("merged ");
  for (int i = 0; i < kRounds; ++i) engine_->Put(0, tokens);
  engine_->Finish(0, FinishReason::kStopEos);
  pb::GenerateEvent event;
  std::uint64_t events = 0;
  std::uint64_t generated = 0;
  while (reader->Read(&event)) {
    ++events;
    generated += event.delta().num_tokens();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(generated, kRounds * tokens.size());
  EXPECT_LT(events, kRounds / 2);
}

// Kills: a stream that ends "well" after NaN logits, a reason that is lost on the way.
TEST_F(StreamingTest, EngineErrorIsAStatus) {
  auto later = GenerateLater(TextRequest("x"));
  ASSERT_TRUE(engine_->WaitForRequests(1));
  engine_->Start(0);
  engine_->Finish(0, FinishReason::kError, "logits are not numbers");
  const Collected got = later.get();
  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(got.status.error_message(), "logits are not numbers");
  EXPECT_EQ(got.reason, "ENGINE_ERROR");
}

// Kills: streams that share state, a wake-up that is lost under load, two runs of one stream at
// once (ThreadSanitizer sees those).
TEST_F(StreamingTest, ManyStreamsAtOnce) {
  constexpr int kStreams = 16;
  constexpr int kTokens = 300;
  std::vector<std::future<Collected>> calls;
  calls.reserve(kStreams);
  for (int i = 0; i < kStreams; ++i) calls.push_back(GenerateLater(TextRequest("x")));
  ASSERT_TRUE(engine_->WaitForRequests(kStreams));
  const std::vector<runtime::Token> tokens = Ids("a");
  for (int i = 0; i < kStreams; ++i) engine_->Start(i);
  for (int round = 0; round < kTokens; ++round) {
    for (int i = 0; i < kStreams; ++i) engine_->Put(i, tokens);
  }
  for (int i = 0; i < kStreams; ++i) engine_->Finish(i, FinishReason::kLengthMaxTokens);
  for (auto& call : calls) {
    const Collected got = call.get();
    EXPECT_TRUE(got.status.ok());
    EXPECT_EQ(got.text(), std::string(kTokens, 'a'));
  }
}

}  // namespace
}  // namespace k3::server::testing
