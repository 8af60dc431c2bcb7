// k3ctl bench over a real channel: what it counts, when it sends, what it reports.
#include <fstream>
#include <numeric>
#include <sstream>
#include <unistd.h>

#include <gmock/gmock.h>

#include "server/ctl/bench.h"
#include "server/ctl/bench_run.h"
#include "tests/server/ctl_fake_server.h"

namespace k3::server::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

std::string TempFile(const std::string& name) {
  return ::testing::TempDir() + "ctl_bench_test_" + std::to_string(getpid()) + "_" + name;
}

class CtlBenchTest : public ::testing::Test {
 protected:
  BenchRun Run(const std::vector<std::string>& texts, std::optional<int> max_concurrency,
               std::vector<double> at_seconds = {}) {
    std::vector<Prompt> prompts;
    prompts.reserve(texts.size());
    for (const std::string& text : texts) prompts.push_back({text, {}, 5});
    at_seconds.resize(texts.size());
    BenchLoad load;
    load.prompts = prompts;
    load.at_seconds = at_seconds;
    load.max_concurrency = max_concurrency;
    return RunBench(Remote(address_), load);
  }

  FakeServer server_;
  const std::string address_ = server_.address();
};

// Kills: a failure counted as an answer or under another's name, a stream without Completed that
// passes, a record in the place of another's, more or fewer calls in flight than asked for.
TEST_F(CtlBenchTest, CountsExactly) {
  std::vector<std::string> texts;
  for (int i = 0; i < 12; ++i) texts.insert(texts.end(), {"ok", "full", "ok", "none", "aborted"});
  const BenchRun run = Run(texts, 8);
  const BenchSummary summary = Summarize(run.records, {}, {});
  EXPECT_EQ(summary.completed, 24U);
  EXPECT_EQ(summary.failed, 36U);
  EXPECT_EQ(summary.failures.at("QUEUE_FULL"), 12U);
  EXPECT_EQ(summary.failures.at("NOT_COMPLETED"), 12U);
  EXPECT_EQ(summary.failures.at("ABORTED"), 12U);
  EXPECT_EQ(summary.input_tokens, 240U);
  EXPECT_EQ(summary.output_tokens, 120U);
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(run.records[i].error == "", texts[i] == "ok") << i;
  EXPECT_EQ(run.peak_concurrency, 8);
  EXPECT_LE(server_.most_in_flight(), 8);
}

// Kills: a clock that starts before a place is free or stops before the last token, gaps between
// all deltas (the third one has no token), a delta of two tokens as two arrivals.
TEST_F(CtlBenchTest, TimesArrivals) {
  const BenchRun run = Run({"ok", "ok", "ok"}, 1);
  const double pause_s = std::chrono::duration<double>(kFakePause).count();
  for (const RequestRecord& record : run.records) {
    EXPECT_GE(record.ttft_s.value(), pause_s);
    ASSERT_EQ(record.itl_s.size(), 3U);
    EXPECT_GE(record.e2el_s, 5 * pause_s);
    const double gaps_s = std::accumulate(record.itl_s.begin(), record.itl_s.end(), 0.0);
    EXPECT_NEAR(record.ttft_s.value() + gaps_s, record.e2el_s, 1e-9);
    EXPECT_LE(record.start_s + record.e2el_s, run.duration_s);
  }
  EXPECT_GE(run.records[2].start_s, 10 * pause_s);
  EXPECT_LT(run.records[2].e2el_s, run.duration_s - run.records[1].start_s);
}

// Kills: arrivals before their time, all at once, or that wait for the answer before.
TEST_F(CtlBenchTest, OpenLoopKeepsItsTimes) {
  const BenchRun run = Run({"ok", "ok", "ok", "ok"}, std::nullopt, {0, 0.02, 0.04, 0.3});
  EXPECT_GE(run.records[1].start_s, 0.02);
  EXPECT_GE(run.records[2].start_s, 0.04);
  EXPECT_GE(run.records[3].start_s, 0.3);
  EXPECT_GE(run.peak_concurrency, 2);
  EXPECT_EQ(Summarize(run.records, {}, {}).completed, 4U);
}

// Kills: ids that the server refuses, warm-ups in the counts, a report that contradicts its file.
TEST_F(CtlBenchTest, Reports) {
  BenchCommand command;
  command.server = address_;
  command.concurrency = 4;
  command.num_prompts = 20;
  command.num_warmups = 3;
  command.random_input_len = 30;
  command.random_output_len = 5;
  command.prefix_len = 2;
  command.goodput = {"ttft:60000"};
  command.result_file = TempFile("result");
  command.save_detailed = true;
  CaptureStdout();
  EXPECT_EQ(Bench(command), 0);
  const std::string text = GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("Successful requests:                     20\n"));
  EXPECT_THAT(text, HasSubstr("Total input tokens:                      640\n"));
  EXPECT_THAT(text, HasSubstr("Total generated tokens:                  100\n"));
  EXPECT_THAT(text, HasSubstr("P99 ITL (ms):"));
  EXPECT_EQ(server_.wrong_ids(), 0);
  std::stringstream json;
  json << std::ifstream(command.result_file).rdbuf();
  for (const char* field :
       {"\"completed\": 20,", "\"failed\": 0,", "\"model_id\": \"scripted\"",
        "\"request_rate\": \"inf\"", "\"max_concurrency\": 4,", "\"total_output_tokens\": 100,",
        "\"mean_ttft_ms\": ", "\"p99_e2el_ms\": ", "\"std_itl_ms\": ", "\"median_tpot_ms\": ",
        "\"itls\": [", "\"errors\": ["}) {
    EXPECT_THAT(json.str(), HasSubstr(field));
  }
  std::remove(command.result_file.c_str());

  command.random_input_len = 94;  // with the prefix and the output one more than max_model_len
  CaptureStderr();
  EXPECT_EQ(Bench(command), 2);
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("101 tokens"));
}

// Kills: warm-ups that warm the cache for the prompts to come, or take their place.
TEST_F(CtlBenchTest, WarmUpsAreOtherPrompts) {
  BenchCommand command;
  command.server = address_;
  command.num_prompts = 2;
  command.random_output_len = 5;
  command.num_warmups = 1;
  command.dataset_path = TempFile("prompts");
  std::ofstream(command.dataset_path) << "full\nok\nok\n";
  CaptureStdout();
  CaptureStderr();
  EXPECT_EQ(Bench(command), 0);
  EXPECT_EQ(GetCapturedStderr(), "");  // a warm-up that fails is told
  EXPECT_THAT(GetCapturedStdout(), HasSubstr("  QUEUE_FULL:                            1\n"));
  command.num_prompts = 1;
  CaptureStdout();
  EXPECT_EQ(Bench(command), 1);  // nothing was answered
  GetCapturedStdout();
  std::remove(command.dataset_path.c_str());
}

}  // namespace
}  // namespace k3::server::ctl
