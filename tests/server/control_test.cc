// What operators ask of a running server, and how calls end that are not let finish.
#include <future>
#include <thread>

#include <gmock/gmock.h>

#include "tests/server/front_end_fixture.h"

namespace k3::server::testing {
namespace {

using runtime::FinishReason;

class ControlTest : public FrontEndTest {
 protected:
  ControlTest() { BecomeReady(); }

  std::future<Collected> GenerateLater(const std::string& id) {
    pb::GenerateRequest request = TextRequest("hello");
    request.set_request_id(id);
    request.mutable_scheduling()->set_priority(3);
    return std::async(std::launch::async, [this, request] { return Generate(request); });
  }
  pb::LoadSnapshot Loads(std::uint32_t requests) {
    grpc::ClientContext context;
    pb::GetLoadsRequest request;
    request.set_max_requests(requests);
    pb::LoadSnapshot loads;
    EXPECT_TRUE(control_->GetLoads(&context, request, &loads).ok());
    return loads;
  }
  std::uint32_t Abort(const pb::AbortRequest& request) {
    grpc::ClientContext context;
    pb::AbortResponse response;
    EXPECT_TRUE(control_->Abort(&context, request, &response).ok());
    return response.aborted();
  }
};

// Kills: an abort that ends others, misses its own, or tells the caller nothing.
TEST_F(ControlTest, AbortEndsWhatIsMeant) {
  std::vector<std::future<Collected>> calls;
  for (const char* id : {"a-1", "a-2", "b-1", "b-2"}) {
    calls.push_back(GenerateLater(id));
    ASSERT_TRUE(engine_->WaitForRequests(static_cast<int>(calls.size())));
  }
  pb::AbortRequest abort;
  abort.set_prefix("a-");
  abort.add_request_ids("b-2");
  abort.set_reason("making room");
  EXPECT_EQ(Abort(abort), 3U);
  for (const std::size_t i : {0U, 1U, 3U}) {
    const Collected got = calls[i].get();
    EXPECT_EQ(got.status.error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(got.reason, "ABORTED");
    EXPECT_EQ(got.status.error_message(), "making room");
  }
  pb::AbortRequest nothing;
  EXPECT_EQ(Abort(nothing), 0U);
  nothing.set_all(true);
  EXPECT_EQ(Abort(nothing), 1U);
  EXPECT_EQ(calls[2].get().status.error_message(), "aborted by an operator");
}

// Kills: a list that is not the calls in flight, or not the oldest first.
TEST_F(ControlTest, LoadsListCallsInFlight) {
  auto first = GenerateLater("first");
  ASSERT_TRUE(engine_->WaitForRequests(1));
  auto second = GenerateLater("second");
  ASSERT_TRUE(engine_->WaitForRequests(2));
  engine_->Start(0);
  engine_->Put(0, Ids("some words"));
  while (Loads(1).requests(0).generated_tokens() == 0) std::this_thread::yield();
  const pb::LoadSnapshot loads = Loads(5);
  ASSERT_EQ(loads.requests_size(), 2);
  EXPECT_EQ(loads.requests(0).request_id(), "first");
  EXPECT_EQ(loads.requests(0).state(), "running");
  EXPECT_EQ(loads.requests(0).priority(), 3);
  EXPECT_EQ(loads.requests(0).tenant(), "default");
  EXPECT_EQ(loads.requests(1).state(), "waiting");
  EXPECT_EQ(loads.requests(1).prompt_tokens(), Ids("hello").size());
  EXPECT_EQ(Loads(1).requests_size(), 1);
  for (const int i : {0, 1}) engine_->Finish(i, FinishReason::kStopEos);
  first.get();
  second.get();
  EXPECT_TRUE(MetricBecomes("k3serve_requests_finished_total", {{"reason", "stop_eos"}}, 2));
  EXPECT_EQ(Loads(5).requests_size(), 0);
}

// Kills: an end by deadline, queue timeout or slowness that reads like another.
TEST_F(ControlTest, EndsAreTold) {
  auto call = GenerateLater("slow");
  ASSERT_TRUE(engine_->WaitForRequests(1));
  engine_->Finish(0, FinishReason::kSlowClient);
  Collected got = call.get();
  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(got.reason, "SLOW_CLIENT");
  EXPECT_TRUE(MetricBecomes("k3serve_slow_clients_total", {}, 1));
  call = GenerateLater("late");
  ASSERT_TRUE(engine_->WaitForRequests(2));
  engine_->Finish(1, FinishReason::kDeadline);
  got = call.get();
  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(got.reason, "QUEUE_TIMEOUT");
}

// Kills: a refusal without a hint when to come back, or with the wrong name.
TEST_F(ControlTest, AFullQueueSaysWhen) {
  using Why = runtime::Refusal::Why;
  for (const auto& [why, reason] : {std::pair(Why::kQueueFull, "QUEUE_FULL"),
                                    std::pair(Why::kTokensFull, "QUEUE_TOKENS_FULL")}) {
    engine_->RefuseWith(runtime::Refusal{why, "full", 250});
    const Collected got = Generate(TextRequest("x"));
    EXPECT_EQ(got.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(got.reason, reason);
    EXPECT_EQ(got.retry_after, "250");
  }
  EXPECT_TRUE(MetricBecomes("k3serve_requests_rejected_total", {{"reason", "tokens_full"}}, 1));
}

// Kills: settings not told, a drain that is not passed on, with or without its timeout.
TEST_F(ControlTest, ServerInfoAndDrain) {
  grpc::ClientContext context;
  pb::ServerInfo info;
  ASSERT_TRUE(control_->GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.state(), "ready");
  ASSERT_EQ(info.settings_size(), 1);
  EXPECT_EQ(info.settings(0).name(), "max-num-seqs");
  for (const bool timed : {false, true}) {
    grpc::ClientContext another;
    pb::DrainRequest request;
    if (timed) request.set_timeout_seconds(7);
    pb::DrainResponse response;
    ASSERT_TRUE(control_->Drain(&another, request, &response).ok());
    ASSERT_TRUE(drained_.has_value());
    EXPECT_EQ(drained_->value_or(std::chrono::seconds(0)).count(), timed ? 7 : 0);
  }
}

}  // namespace
}  // namespace k3::server::testing
