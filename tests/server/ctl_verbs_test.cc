// The other verbs of k3ctl over a real channel: generate, top, abort, drain, health.
#include <csignal>
#include <future>
#include <memory>
#include <thread>

#include <gmock/gmock.h>

#include "proto/k3serve/v1/inference.pb.h"
#include "server/ctl/client.h"
#include "server/ctl/generate.h"
#include "server/ctl/remote.h"
#include "server/ctl/top.h"
#include "tests/server/ctl_fake_server.h"

namespace k3::server::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

class CtlVerbsTest : public ::testing::Test {
 protected:
  FakeServer server_;
  const std::string address_ = server_.address();
};

// Kills: a call that lives on while its end is told. One of gRPC's threads could then be the
// channel's last owner, which aborts in some runs only; the call's own on_event tells of it in all.
TEST_F(CtlVerbsTest, TheRemoteMayGoAtOnce) {
  auto kept_by_call = std::make_shared<int>();
  const std::weak_ptr<int> call = kept_by_call;
  std::promise<bool> call_is_gone;
  const Remote remote(address_);
  k3serve::v1::GenerateRequest request;
  request.set_text("full");
  remote.Stream(
      request, std::nullopt, [kept = std::move(kept_by_call)](const auto&) {},
      [&](const Outcome& outcome) {
        EXPECT_EQ(outcome.reason, "QUEUE_FULL");
        call_is_gone.set_value(call.expired());
      });
  EXPECT_TRUE(call_is_gone.get_future().get());
}

// Kills: choices that are mixed, shown twice or without their rest; several choices as one text.
TEST_F(CtlVerbsTest, GenerateShowsEachChoiceWhole) {
  GenerateCommand command;
  command.server = address_;
  command.text = "two";
  command.n = 2;
  CaptureStdout();
  CaptureStderr();
  EXPECT_EQ(Generate(command), 0);
  EXPECT_EQ(GetCapturedStdout(),
            "--- choice 1: FINISH_REASON_STOP_EOS\n1!\n"
            "--- choice 0: FINISH_REASON_LENGTH_MAX_TOKENS\nabc!\n");
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("2 choices; "));
}

// Kills: JSON over several lines, a usage line between the events, --no-stream that streams.
TEST_F(CtlVerbsTest, GenerateInOtherForms) {
  GenerateCommand command;
  command.server = address_;
  command.text = "ok";
  command.json = true;
  CaptureStdout();
  CaptureStderr();
  EXPECT_EQ(Generate(command), 0);
  const std::string lines = GetCapturedStdout();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 7);
  EXPECT_EQ(GetCapturedStderr(), "");
  command.json = false;
  command.unary = true;
  CaptureStdout();
  CaptureStderr();
  EXPECT_EQ(Generate(command), 0);
  EXPECT_EQ(GetCapturedStdout(), "all of ok\n");
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("8 generated"));
}

// Kills: a call without its deadline, an exit code that hides the status, a reason that is lost.
TEST_F(CtlVerbsTest, GenerateFails) {
  GenerateCommand command;
  command.server = address_;
  command.text = "hang";
  command.timeout_seconds = 0.1;
  CaptureStderr();
  EXPECT_EQ(Generate(command), 14);
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("DEADLINE_EXCEEDED"));
  command.text = "full";
  CaptureStderr();
  EXPECT_EQ(Generate(command), 18);
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("QUEUE_FULL: the queue is full"));
}

// Kills: rates of a single look, JSON that waits an interval, a loop that SIGINT does not end.
TEST_F(CtlVerbsTest, TopLooks) {
  TopCommand command{address_, 0.01, 10, true, false};
  CaptureStdout();
  EXPECT_EQ(Top(command), 0);
  EXPECT_THAT(GetCapturedStdout(), HasSubstr("generated 25.0/s"));
  command.json = true;
  command.interval_seconds = 3600;
  CaptureStdout();
  EXPECT_EQ(Top(command), 0);
  EXPECT_THAT(GetCapturedStdout(), HasSubstr("\"generation_tokens_total\":\"150\""));

  command = {address_, 3600, 10, false, false};
  CaptureStdout();
  std::thread watching([&command] { EXPECT_EQ(Top(command), 0); });
  while (server_.looks() < 4) std::this_thread::sleep_for(kFakePause);
  pthread_kill(watching.native_handle(), SIGINT);
  watching.join();
  EXPECT_THAT(GetCapturedStdout(), HasSubstr("k3serve   up 00:00:08\n"));
}

// Kills: a service's name that does not arrive, NOT_SERVING as 0, a server that is not there as
// NOT_SERVING.
TEST_F(CtlVerbsTest, HealthOfAService) {
  server_.SetServing("ill", false);
  CaptureStdout();
  EXPECT_EQ(Health(address_, ""), 0);
  EXPECT_EQ(Health(address_, "ill"), 1);
  EXPECT_EQ(GetCapturedStdout(), "SERVING\nNOT_SERVING\n");
  CaptureStderr();
  EXPECT_EQ(Health(address_, "unknown"), 15);
  EXPECT_EQ(Health("127.0.0.1:1", ""), 24);
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("NOT_FOUND"));
}

// Kills: "nobody" taken for "all", a timeout of 0 that is not sent, a field under another's name.
TEST_F(CtlVerbsTest, AbortAndDrain) {
  CaptureStderr();
  EXPECT_EQ(Abort({address_, {}, "", false, "why not"}), 2);
  EXPECT_EQ(server_.last_control(), "");
  GetCapturedStderr();
  CaptureStdout();
  EXPECT_EQ(Abort({address_, {"a", "b"}, "bench-", false, "test"}), 0);
  EXPECT_EQ(server_.last_control(),
            "request_ids: \"a\" request_ids: \"b\" prefix: \"bench-\" reason: \"test\"");
  EXPECT_EQ(Abort({address_, {}, "", true, ""}), 0);
  EXPECT_EQ(server_.last_control(), "all: true");
  EXPECT_EQ(Drain(address_, std::nullopt), 0);
  EXPECT_EQ(server_.last_control(), "");
  EXPECT_EQ(Drain(address_, 0), 0);
  EXPECT_EQ(server_.last_control(), "timeout_seconds: 0");
  EXPECT_THAT(GetCapturedStdout(), HasSubstr("3 aborted\ndraining: 2 running, 0 waiting\n"));
}

}  // namespace
}  // namespace k3::server::ctl
