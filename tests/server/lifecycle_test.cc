// Health, readiness and numbers over the life of the process.
#include <chrono>
#include <future>
#include <set>
#include <sstream>

#include <gmock/gmock.h>

#include "tests/server/front_end_fixture.h"

namespace k3::server::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kServices[] = {"", "k3serve.v1.Inference", "k3serve.v1.Control"};

class LifecycleTest : public FrontEndTest {};

// Kills: a port that opens after the weights, readiness that waits for loading, work taken too
// early, health that says SERVING meanwhile.
TEST_F(LifecycleTest, AnswersWhileLoading) {
  lifecycle_.SetProgress(LoadStage::kWarmup, 0.42);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(HttpGet("/livez"), StartsWith("HTTP/1.1 200"));
  const std::string ready = HttpGet("/readyz");
  EXPECT_THAT(ready, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(ready, HasSubstr("\"phase\":\"loading\""));
  EXPECT_THAT(ready, HasSubstr("\"stage\":\"warmup\""));
  EXPECT_THAT(ready, HasSubstr("\"progress\":0.42"));
  EXPECT_THAT(HttpGet("/health"), StartsWith("HTTP/1.1 503"));
  const Collected got = Generate(TextRequest("x"));
  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(got.reason, "LOADING");
  EXPECT_THAT(got.status.error_message(), HasSubstr("warmup, 42 %"));
  pb::ModelInfo info;
  grpc::ClientContext context;
  EXPECT_EQ(control_->GetModelInfo(&context, {}, &info).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  for (const char* service : kServices) EXPECT_EQ(HealthOf(service), 2) << service;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

// Kills: health that does not flip, or flips for one name only; a drain that cuts running streams.
TEST_F(LifecycleTest, HealthFollowsThePhase) {
  BecomeReady();
  for (const char* service : kServices) EXPECT_EQ(HealthOf(service), 1) << service;
  EXPECT_THAT(HttpGet("/readyz"), StartsWith("HTTP/1.1 200"));
  auto running = std::async(std::launch::async, [this] { return Generate(TextRequest("x")); });
  ASSERT_TRUE(engine_->WaitForRequests(1));
  Drain();
  for (const char* service : kServices) EXPECT_EQ(HealthOf(service), 2) << service;
  EXPECT_THAT(HttpGet("/readyz"), HasSubstr("draining"));
  EXPECT_THAT(HttpGet("/livez"), StartsWith("HTTP/1.1 200"));
  engine_->Start(0);
  engine_->Put(0, Ids("still here"));
  engine_->Finish(0, runtime::FinishReason::kStopEos);
  const Collected got = running.get();
  EXPECT_TRUE(got.status.ok());
  EXPECT_EQ(got.text(), "still here");
}

// Kills: GetModelInfo with a field forgotten or swapped.
TEST_F(LifecycleTest, ModelInfo) {
  BecomeReady();
  pb::ModelInfo info;
  grpc::ClientContext context;
  ASSERT_TRUE(control_->GetModelInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.names(0), "test-model");
  EXPECT_EQ(info.weights_fingerprint(), "0123");
  EXPECT_EQ(info.max_model_len(), 64U);
  EXPECT_EQ(info.vocab_size(), static_cast<std::uint32_t>(model_->tokenizer.vocabulary().size()));
  EXPECT_THAT(info.eos_token_ids(), ::testing::ElementsAre(1, 2));
  EXPECT_EQ(info.execution().num_pages(), 100U);
  EXPECT_EQ(info.execution().block_tokens(), 16U);
}

// Kills: a series that appears with its first event, a family with two heads, one that is missing.
TEST_F(LifecycleTest, EverySeriesIsThereAtZero) {
  const std::string text = HttpGet("/metrics");
  for (const char* name : {"k3serve_build_info",
                           "k3serve_config_info",
                           "k3serve_requests_received_total",
                           "k3serve_requests_finished_total",
                           "k3serve_requests_rejected_total",
                           "k3serve_requests_running",
                           "k3serve_requests_waiting",
                           "k3serve_queue_tokens",
                           "k3serve_prompt_tokens_total",
                           "k3serve_generation_tokens_total",
                           "k3serve_time_to_first_token_seconds",
                           "k3serve_inter_token_latency_seconds",
                           "k3serve_request_duration_seconds",
                           "k3serve_request_phase_seconds",
                           "k3serve_scheduler_steps_total",
                           "k3serve_scheduler_step_seconds",
                           "k3serve_preemptions_total",
                           "k3serve_recomputed_tokens_total",
                           "k3serve_nan_logits_total",
                           "k3serve_pages",
                           "k3serve_grpc_requests_total",
                           "k3serve_http_requests_total",
                           "k3serve_weights_load_progress_ratio",
                           "k3serve_engine_heartbeat_age_seconds",
                           "k3serve_state"}) {
    EXPECT_THAT(text, HasSubstr(std::string("# TYPE ") + name + " ")) << name;
  }
  std::multiset<std::string> heads;
  std::istringstream lines(Metrics());
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# TYPE", 0) == 0) heads.insert(line);
    const bool counts =
        line.find("_total{") != std::string::npos || line.find("_count{") != std::string::npos;
    if (counts && line.find("http_requests") == std::string::npos) {
      EXPECT_EQ(line.substr(line.rfind(' ')), " 0") << line;
    }
  }
  for (const std::string& head : heads) EXPECT_EQ(heads.count(head), 1U) << head;
}

// Kills: a request counted twice or not at all, a first token counted per event, an engine counter
// that is not read.
TEST_F(LifecycleTest, NumbersCount) {
  BecomeReady();
  auto running = std::async(std::launch::async, [this] { return Generate(TextRequest("x")); });
  ASSERT_TRUE(engine_->WaitForRequests(1));
  engine_->Start(0);
  engine_->Put(0, Ids("one two three"));
  engine_->Finish(0, runtime::FinishReason::kLengthMaxTokens);
  EXPECT_TRUE(running.get().status.ok());
  pb::GenerateRequest bad = TextRequest("");
  EXPECT_FALSE(Generate(bad).status.ok());
  engine_->counters_for_test().generation_tokens.Add(3);
  engine_->counters_for_test().inter_token_latency_seconds.Observe(0.3);

  EXPECT_TRUE(MetricBecomes("k3serve_requests_received_total", {{"api", "grpc"}}, 2));
  EXPECT_TRUE(
      MetricBecomes("k3serve_requests_finished_total", {{"api", "grpc"}, {"reason", "length"}}, 1));
  EXPECT_TRUE(MetricBecomes("k3serve_requests_rejected_total", {{"reason", "invalid"}}, 1));
  EXPECT_EQ(Metric("k3serve_time_to_first_token_seconds_count"), 1);
  EXPECT_EQ(Metric("k3serve_request_duration_seconds_count"), 1);
  EXPECT_EQ(Metric("k3serve_generation_tokens_total"), 3);
  EXPECT_EQ(Metric("k3serve_inter_token_latency_seconds_count"), 1);
  EXPECT_TRUE(MetricBecomes("k3serve_grpc_requests_total",
                            {{"code", "INVALID_ARGUMENT"}, {"method", "Generate"}}, 1));
}

// Kills: a wrong method that runs the route, an unknown path as HTML or 200, a body without limit,
// headers cut at Beast's 8 KiB, a connection closed after one answer.
TEST_F(LifecycleTest, HttpManners) {
  EXPECT_THAT(HttpGet("/nothing"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(HttpGet("/nothing"), HasSubstr("\"error\""));
  EXPECT_THAT(HttpGet("/livez?verbose=1"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(HttpGet("/\xFF\xFE"), StartsWith("HTTP/1.1 4"));
  const std::string close = "Host: x\r\nConnection: close\r\n";
  EXPECT_THAT(Http("POST /metrics HTTP/1.1\r\n" + close + "Content-Length: 0\r\n\r\n"),
              ::testing::AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET, HEAD")));
  EXPECT_THAT(Http("POST /x HTTP/1.1\r\n" + close + "Content-Length: 9000000\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(
      Http("GET /livez HTTP/1.1\r\nX: " + std::string(20'000, 'a') + "\r\n" + close + "\r\n"),
      StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(
      Http("GET /livez HTTP/1.1\r\nX: " + std::string(80'000, 'a') + "\r\n" + close + "\r\n"),
      StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Http("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  const std::string twice =
      Http("GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /version HTTP/1.1\r\n" + close + "\r\n");
  EXPECT_THAT(twice, HasSubstr("alive"));
  EXPECT_THAT(twice, HasSubstr("\"version\""));
}

// Kills: two servers that share one port unnoticed.
TEST_F(LifecycleTest, PortsAreExclusive) {
  EXPECT_FALSE(GrpcServer::Start({"127.0.0.1", grpc_->port(), 1 << 20},
                                 {lifecycle_, metrics_, pool_, calls_, log_, program_})
                   .ok());
  EXPECT_FALSE(HttpServer::Start({"127.0.0.1", http_->port()}, [](const HttpRequest&) {
                 return HttpResponse{};
               }).ok());
}

}  // namespace
}  // namespace k3::server::testing
