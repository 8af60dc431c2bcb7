// What a scrape shows: every series from the first one on, each under its own name.
#include <ctime>
#include <fcntl.h>
#include <set>

#include <gtest/gtest.h>

#include "tests/server/metrics_fixture.h"

namespace k3::server::testing {
namespace {

using runtime::FinishReason;

// Kills: a series of the table that is missing, comes with its first event, or has another label.
TEST_F(MetricsTest, TheTableIsThereAtZero) {
  const std::vector<std::pair<std::string, Labels>> table = {
      {"k3serve_requests_running", {}},
      {"k3serve_requests_waiting", {{"reason", "capacity"}}},
      {"k3serve_requests_paused", {}},
      {"k3serve_queue_tokens", {{"kind", "uncached"}}},
      {"k3serve_scheduler_steps_total", {{"kind", "prefill"}}},
      {"k3serve_scheduler_step_seconds_count", {{"kind", "decode"}}},
      {"k3serve_scheduler_batch_tokens_count", {{"kind", "mixed"}}},
      {"k3serve_scheduler_batch_sequences_count", {{"kind", "mixed"}}},
      {"k3serve_scheduler_overhead_seconds_count", {{"phase", "schedule"}}},
      {"k3serve_scheduler_overhead_seconds_count", {{"phase", "emit"}}},
      {"k3serve_scheduler_prefill_rows", {}},
      {"k3serve_preemptions_total", {{"kind", "recompute"}}},
      {"k3serve_recomputed_tokens_total", {}},
      {"k3serve_prompt_tokens_total", {{"source", "computed"}}},
      {"k3serve_prompt_tokens_total", {{"source", "cache_hbm"}}},
      {"k3serve_generation_tokens_total", {{"channel", "response"}}},
      {"k3serve_time_to_first_token_seconds_count", {{"api", "grpc"}}},
      {"k3serve_inter_token_latency_seconds_count", {}},
      {"k3serve_time_per_output_token_seconds_count", {}},
      {"k3serve_request_duration_seconds_count", {{"api", "grpc"}}},
      {"k3serve_request_phase_seconds_count", {{"phase", "tokenize"}}},
      {"k3serve_request_phase_seconds_count", {{"phase", "queue"}}},
      {"k3serve_request_phase_seconds_count", {{"phase", "prefill"}}},
      {"k3serve_request_phase_seconds_count", {{"phase", "decode"}}},
      {"k3serve_request_prompt_tokens_count", {}},
      {"k3serve_request_generation_tokens_count", {}},
      {"k3serve_request_max_tokens_count", {}},
      {"k3serve_abort_latency_seconds_count", {{"api", "grpc"}}},
      {"k3serve_moe_expert_tokens_total", {{"layer_group", "0"}}},
      {"k3serve_moe_expert_tokens_total", {{"layer_group", "3"}}},
      {"k3serve_moe_load_imbalance_ratio_count", {}},
      {"k3serve_moe_active_experts_count", {{"phase", "decode"}}},
      {"k3serve_nan_logits_total", {}},
      {"k3serve_requests_received_total", {{"api", "grpc"}, {"stream", "false"}}},
      {"k3serve_slow_clients_total", {{"api", "grpc"}}},
      {"k3serve_client_disconnects_total", {{"api", "grpc"}}},
      {"k3serve_stream_events_total", {{"api", "grpc"}}},
      {"k3serve_pages", {{"state", "used"}}},
  };
  for (const auto& [name, labels] : table) EXPECT_EQ(Metric(name, labels), 0) << name;
  for (const char* reason : {"stop_eos", "stop_token", "stop_string", "length", "aborted",
                             "deadline", "slow_client", "error"}) {
    EXPECT_EQ(Metric("k3serve_requests_finished_total", {{"reason", reason}}), 0) << reason;
  }
  for (const char* reason : {"queue_full", "tokens_full", "invalid", "too_long", "not_found",
                             "draining", "loading", "unimplemented"}) {
    EXPECT_EQ(Metric("k3serve_requests_rejected_total", {{"reason", reason}}), 0) << reason;
  }
  for (const char* method : {"Generate", "Complete", "Tokenize", "Detokenize", "GetModelInfo",
                             "GetServerInfo", "GetLoads", "Abort", "Drain"}) {
    EXPECT_EQ(Metric("k3serve_grpc_requests_total", {{"method", method}, {"code", "OK"}}), 0);
  }
}

// Kills: a series that comes or goes with what is counted.
TEST_F(MetricsTest, NoSeriesComesLater) {
  const auto names = [](const std::vector<Sample>& samples) {
    std::multiset<std::string> all;
    for (const Sample& sample : samples) {
      // What the engine was started with is known only then.
      all.insert(sample.name.ends_with("_info") ? sample.name : SeriesOf(sample));
    }
    return all;
  };
  const auto before = names(Samples(Metrics()));
  BecomeReady();
  CountAtRandom();
  EXPECT_EQ(names(Samples(Metrics())), before);
  for (const std::string& series : before) EXPECT_EQ(before.count(series), 1U) << series;
}

// Kills: buckets that are not cumulative, a count read at another moment than its buckets, a lost
// +Inf.
TEST_F(MetricsTest, LawOfHistograms) {
  BecomeReady();
  CountAtRandom();
  std::map<std::string, double> last, total, count;
  for (Sample& sample : Samples(Metrics())) {
    const auto bound = sample.labels.find("le");
    const std::string le = bound == sample.labels.end() ? "" : bound->second;
    sample.labels.erase("le");
    const std::string part = sample.name.substr(sample.name.rfind('_'));
    sample.name.resize(sample.name.size() - part.size());
    const std::string series = SeriesOf(sample);
    if (part == "_count") count[series] = sample.value;
    if (part != "_bucket") continue;
    EXPECT_GE(sample.value, last[series]) << series << ' ' << le;
    last[series] = sample.value;
    if (le == "+Inf") total[series] = sample.value;
  }
  EXPECT_GT(count.size(), 30U);
  EXPECT_EQ(total, count);
}

// Kills: an engine's counter shown under another's name, kinds and phases swapped.
TEST_F(MetricsTest, EngineCountersArriveUnderTheirNames) {
  BecomeReady();
  runtime::EngineCounters& counters = engine_->counters_for_test();
  counters.requests_running.Set(1);
  counters.requests_waiting.Set(2);
  counters.requests_paused.Set(3);
  counters.queue_tokens.Set(4);
  counters.prefill_rows.Set(5);
  counters.retry_after_ms.Set(6000);
  counters.expert_imbalance_now.Set(7);
  counters.preemptions.Add(8);
  counters.steps[1].steps.Add(9);
  counters.steps[2].batch_sequences.Observe(10);
  counters.steps[0].active_experts.Observe(11);
  counters.overhead_seconds[1].Observe(12);
  counters.expert_tokens[2].Add(13);
  counters.abort_seconds.Observe(14);
  counters.expert_imbalance.Observe(15);
  counters.prompt_tokens_cached.Add(16);
  counters.decode_seconds.Observe(17);
  counters.prefill_seconds.Observe(18);
  counters.queue_seconds.Observe(19);
  EXPECT_EQ(Metric("k3serve_requests_running"), 1);
  EXPECT_EQ(Metric("k3serve_requests_waiting"), 2);
  EXPECT_EQ(Metric("k3serve_requests_paused"), 3);
  EXPECT_EQ(Metric("k3serve_queue_tokens"), 4);
  EXPECT_EQ(Metric("k3serve_scheduler_prefill_rows"), 5);
  EXPECT_EQ(Metric("k3serve_queue_retry_after_seconds"), 6);
  EXPECT_EQ(Metric("k3serve_moe_load_imbalance_last_ratio"), 7);
  EXPECT_EQ(Metric("k3serve_preemptions_total"), 8);
  EXPECT_EQ(Metric("k3serve_scheduler_steps_total", {{"kind", "decode"}}), 9);
  EXPECT_EQ(Metric("k3serve_scheduler_batch_sequences_sum", {{"kind", "mixed"}}), 10);
  EXPECT_EQ(Metric("k3serve_moe_active_experts_sum", {{"phase", "prefill"}}), 11);
  EXPECT_EQ(Metric("k3serve_scheduler_overhead_seconds_sum", {{"phase", "emit"}}), 12);
  EXPECT_EQ(Metric("k3serve_moe_expert_tokens_total", {{"layer_group", "2"}}), 13);
  EXPECT_EQ(Metric("k3serve_abort_latency_seconds_sum"), 14);
  EXPECT_EQ(Metric("k3serve_moe_load_imbalance_ratio_sum"), 15);
  EXPECT_EQ(Metric("k3serve_prompt_tokens_total", {{"source", "cache_hbm"}}), 16);
  EXPECT_EQ(Metric("k3serve_request_phase_seconds_sum", {{"phase", "decode"}}), 17);
  EXPECT_EQ(Metric("k3serve_request_phase_seconds_sum", {{"phase", "prefill"}}), 18);
  EXPECT_EQ(Metric("k3serve_request_phase_seconds_sum", {{"phase", "queue"}}), 19);
}

// Kills: an outcome or a refusal counted under its neighbour's name.
TEST_F(MetricsTest, FrontEndCounts) {
  metrics_.SlowClient(Api::kGrpc);
  metrics_.Disconnected(Api::kGrpc);
  metrics_.StreamEvents(Api::kGrpc, 5);
  metrics_.Received(Api::kGrpc);
  metrics_.Received(Api::kGrpc, false);
  metrics_.GrpcDone(GrpcMethod::kDrain, 0);
  metrics_.Rejected({Code::kUnimplemented, "ANY", "", {}});
  metrics_.Rejected({Code::kResourceExhausted, reason::kQueueFull, "", {}});
  EXPECT_EQ(Metric("k3serve_slow_clients_total"), 1);
  EXPECT_EQ(Metric("k3serve_client_disconnects_total"), 1);
  EXPECT_EQ(Metric("k3serve_stream_events_total"), 5);
  EXPECT_EQ(Metric("k3serve_requests_received_total", {{"stream", "true"}}), 1);
  EXPECT_EQ(Metric("k3serve_requests_received_total", {{"stream", "false"}}), 1);
  EXPECT_EQ(Metric("k3serve_grpc_requests_total", {{"method", "Drain"}}), 1);
  EXPECT_EQ(Metric("k3serve_requests_rejected_total", {{"reason", "unimplemented"}}), 1);
  EXPECT_EQ(Metric("k3serve_requests_rejected_total", {{"reason", "queue_full"}}), 1);
  const std::map<FinishReason, const char*> names = {{FinishReason::kStopEos, "stop_eos"},
                                                     {FinishReason::kStopToken, "stop_token"},
                                                     {FinishReason::kStopString, "stop_string"},
                                                     {FinishReason::kLengthMaxTokens, "length"},
                                                     {FinishReason::kLengthContext, "length"},
                                                     {FinishReason::kAborted, "aborted"},
                                                     {FinishReason::kDeadline, "deadline"},
                                                     {FinishReason::kSlowClient, "slow_client"},
                                                     {FinishReason::kError, "error"}};
  ASSERT_EQ(names.size(), static_cast<std::size_t>(runtime::kNumFinishReasons));
  for (const auto& [reason, name] : names) {
    const double before = Metric("k3serve_requests_finished_total", {{"reason", name}});
    metrics_.Finished(Api::kGrpc, OutcomeOf(reason), 1);
    EXPECT_EQ(Metric("k3serve_requests_finished_total", {{"reason", name}}), before + 1) << name;
  }
}

int NumOpenDescriptors() {
  int open = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0) ++open;
  }
  return open;
}

// Kills: a field of /proc one off, pages for bytes, ticks for seconds, a start before the
// machine's.
TEST_F(MetricsTest, Process) {
  const auto value = [this](const char* name) {
    const Shape shape = Sum(Samples(Metrics()), name);
    return shape.empty() ? -1 : shape.at("");
  };
  EXPECT_EQ(value("process_open_fds"), NumOpenDescriptors());
  EXPECT_GE(value("process_max_fds"), NumOpenDescriptors());
  EXPECT_GE(value("process_threads"), 1);
  EXPECT_LT(value("process_threads"), 1000);
  const double resident = value("process_resident_memory_bytes");
  EXPECT_GT(resident, 4 << 20);
  EXPECT_GT(value("process_virtual_memory_bytes"), resident);
  const auto now = static_cast<double>(time(nullptr));
  EXPECT_LE(value("process_start_time_seconds"), now + 2);
  EXPECT_GT(value("process_start_time_seconds"), now - 3600);
  const double cpu = value("process_cpu_seconds_total");
  EXPECT_NEAR(cpu, static_cast<double>(clock()) / CLOCKS_PER_SEC, 0.5);
}

}  // namespace
}  // namespace k3::server::testing
