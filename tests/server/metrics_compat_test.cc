// The same numbers under vLLM's names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/metrics_fixture.h"

namespace k3::server::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The text has 16 digits of a sum: equal but for the last of them.
void ExpectSame(const Shape& alias, const Shape& source, const std::string& name) {
  ASSERT_EQ(alias.size(), source.size()) << name;
  for (const auto& [bound, value] : source) {
    ASSERT_TRUE(alias.contains(bound)) << name << ' ' << bound;
    EXPECT_NEAR(alias.at(bound), value, 1e-12 * value) << name << ' ' << bound;
  }
}

// Kills: an alias of the wrong source or of all phases together, one that counts for itself and
// drifts, kinds or sources left out of a sum.
TEST_F(MetricsTest, AliasesEqualTheirSources) {
  BecomeReady();
  CountAtRandom();
  const std::vector<Sample> samples = Samples(Metrics());
  const std::map<std::string, std::pair<std::string, Labels>> aliases = {
      {"vllm:num_requests_running", {"k3serve_requests_running", {}}},
      {"vllm:num_requests_waiting", {"k3serve_requests_waiting", {}}},
      {"vllm:num_preemptions_total", {"k3serve_preemptions_total", {}}},
      {"vllm:prompt_tokens_total", {"k3serve_prompt_tokens_total", {}}},
      {"vllm:generation_tokens_total", {"k3serve_generation_tokens_total", {}}},
      {"vllm:time_to_first_token_seconds", {"k3serve_time_to_first_token_seconds", {}}},
      {"vllm:inter_token_latency_seconds", {"k3serve_inter_token_latency_seconds", {}}},
      {"vllm:request_time_per_output_token_seconds", {"k3serve_time_per_output_token_seconds", {}}},
      {"vllm:e2e_request_latency_seconds", {"k3serve_request_duration_seconds", {}}},
      {"vllm:request_queue_time_seconds", {"k3serve_request_phase_seconds", {{"phase", "queue"}}}},
      {"vllm:request_prefill_time_seconds",
       {"k3serve_request_phase_seconds", {{"phase", "prefill"}}}},
      {"vllm:request_decode_time_seconds",
       {"k3serve_request_phase_seconds", {{"phase", "decode"}}}},
      {"vllm:iteration_tokens_total", {"k3serve_scheduler_batch_tokens", {}}},
      {"vllm:request_prompt_tokens", {"k3serve_request_prompt_tokens", {}}},
      {"vllm:request_generation_tokens", {"k3serve_request_generation_tokens", {}}},
      {"vllm:request_params_max_tokens", {"k3serve_request_max_tokens", {}}},
  };
  const Labels engine = {{"model_name", "test-model"}, {"engine", "0"}};
  for (const auto& [alias, source] : aliases) {
    std::size_t found = 0;
    for (const char* part : {"", "_bucket", "_sum", "_count"}) {
      const Shape shape = Sum(samples, alias + part, engine);
      ExpectSame(shape, Sum(samples, source.first + part, source.second), alias + part);
      found += shape.size();
    }
    EXPECT_GT(found, 0U) << alias;
  }
}

// Kills: a usage of 0 to 100 or of the free pages, an end counted under two reasons, a failure that
// a dashboard calls a success.
TEST_F(MetricsTest, AliasesThatAreComputed) {
  BecomeReady();
  CountAtRandom();
  engine_->counters_for_test().pages_total.Set(80);
  engine_->counters_for_test().pages_free.Set(60);
  EXPECT_EQ(Metric("vllm:kv_cache_usage_perc"), 0.25);
  EXPECT_EQ(Metric("vllm:cache_config_info", {{"block_size", "16"}, {"num_gpu_blocks", "100"}}), 1);
  EXPECT_EQ(Metric("vllm:prefix_cache_queries_total"), 0);
  EXPECT_EQ(Metric("vllm:prefix_cache_hits_total"), 0);
  EXPECT_EQ(Metric("vllm:request_success_total"),
            Metric("k3serve_requests_finished_total") -
                Metric("k3serve_requests_finished_total", {{"reason", "error"}}));
  EXPECT_EQ(Metric("vllm:request_success_total", {{"finished_reason", "length"}}),
            Metric("k3serve_requests_finished_total", {{"reason", "length"}}));
  EXPECT_EQ(Metric("vllm:request_success_total", {{"finished_reason", "abort"}}),
            Metric("k3serve_requests_finished_total", {{"reason", "aborted"}}) +
                Metric("k3serve_requests_finished_total", {{"reason", "deadline"}}) +
                Metric("k3serve_requests_finished_total", {{"reason", "slow_client"}}));
}

// Kills: aliases nobody asked for.
TEST_F(MetricsTest, NoAliasesUnasked) {
  const server::Metrics plain(lifecycle_, "m", false);
  EXPECT_THAT(plain.Text(), Not(HasSubstr("vllm:")));
  EXPECT_THAT(plain.Text(), HasSubstr("k3serve_requests_running{model_name=\"m\""));
}

}  // namespace
}  // namespace k3::server::testing
