// The command line: what is taken, and that every fault is told at once.
#include "server/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/exit_codes.h"

namespace k3::server {
namespace {

using ::testing::HasSubstr;

std::variant<Flags, EarlyExit> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "k3serve");
  const char* const environment[] = {nullptr};
  return ParseFlags(static_cast<int>(arguments.size()), arguments.data(), environment);
}

// Kills: a default that drifts from the documented one, a name taken from a trailing slash.
TEST(Flags, Defaults) {
  const auto parsed = Parse({"models/nano/"});
  ASSERT_TRUE(std::holds_alternative<Flags>(parsed)) << std::get<EarlyExit>(parsed).text;
  const Flags& flags = std::get<Flags>(parsed);
  EXPECT_EQ(flags.model, "models/nano/");
  EXPECT_THAT(flags.names, ::testing::ElementsAre("nano"));
  EXPECT_EQ(flags.host, "127.0.0.1");
  EXPECT_EQ(flags.http_port, 8000);
  EXPECT_EQ(flags.grpc_port, 50051);
  EXPECT_EQ(flags.engine.device, "cpu");
  EXPECT_EQ(flags.drain_timeout, std::chrono::seconds(30));
  EXPECT_FALSE(flags.warmup);
  EXPECT_EQ(flags.log_format, "text");
  EXPECT_TRUE(flags.log_requests);
  EXPECT_FALSE(flags.metrics_compat_vllm);
  const runtime::EngineOptions engine;
  EXPECT_EQ(flags.engine.max_queued_tokens, engine.max_queued_tokens);
  EXPECT_EQ(flags.engine.target_inter_token_ms, engine.target_inter_token_ms);
  EXPECT_EQ(flags.engine.long_prefill_tokens, engine.long_prefill_tokens);
  EXPECT_EQ(flags.engine.max_unread_tokens, engine.max_unread_tokens);
  EXPECT_EQ(flags.engine.slow_client_timeout_ms, engine.slow_client_timeout_ms);
}

// Kills: a suffix of 1000, an alias that is not known, a value that reaches the wrong option.
TEST(Flags, Values) {
  const auto parsed = Parse({"--model-path",
                             "m",
                             "--port",
                             "0",
                             "--grpc-port",
                             "1",
                             "--cache-bytes",
                             "8G",
                             "--device",
                             "ref",
                             "--kv-cache-dtype",
                             "fp32",
                             "--alias",
                             "a",
                             "--served-model-name",
                             "b",
                             "-c",
                             "4096",
                             "--max-num-seqs",
                             "3",
                             "--warmup",
                             "--isa",
                             "avx512"});
  ASSERT_TRUE(std::holds_alternative<Flags>(parsed)) << std::get<EarlyExit>(parsed).text;
  const Flags& flags = std::get<Flags>(parsed);
  EXPECT_EQ(flags.http_port, 0);
  EXPECT_EQ(flags.engine.cache_bytes, std::int64_t{8} << 30);
  EXPECT_EQ(flags.engine.latent_dtype, DType::kF32);
  EXPECT_THAT(flags.names, ::testing::ElementsAre("a", "b"));
  EXPECT_EQ(flags.engine.max_model_len, 4096);
  EXPECT_EQ(flags.engine.max_num_seqs, 3);
  EXPECT_EQ(flags.engine.isa, "avx512");
  EXPECT_TRUE(flags.warmup);
}

// Kills: a new flag that reaches its neighbour's option, or none.
TEST(Flags, LoadValues) {
  const auto parsed =
      Parse({"m", "--max-queued-tokens", "9000000000", "--target-inter-token-latency-ms", "51",
             "--long-prefill-token-threshold", "52", "--max-unread-tokens", "53",
             "--slow-client-timeout", "54", "--kv-cache-memory-bytes", "1K", "--metrics-compat",
             "vllm", "--log-format", "json", "--log-requests", "none"});
  ASSERT_TRUE(std::holds_alternative<Flags>(parsed)) << std::get<EarlyExit>(parsed).text;
  const Flags& flags = std::get<Flags>(parsed);
  EXPECT_EQ(flags.engine.max_queued_tokens, 9'000'000'000);
  EXPECT_EQ(flags.engine.target_inter_token_ms, 51);
  EXPECT_EQ(flags.engine.long_prefill_tokens, 52);
  EXPECT_EQ(flags.engine.max_unread_tokens, 53);
  EXPECT_EQ(flags.engine.slow_client_timeout_ms, 54'000);
  EXPECT_EQ(flags.engine.cache_bytes, 1024);
  EXPECT_TRUE(flags.metrics_compat_vllm);
  EXPECT_FALSE(flags.log_requests);
  EXPECT_EQ(flags.log_format, "json");
}

// Kills: a parser that stops at the first fault, values that wrap or are cut at a letter.
TEST(Flags, AllFaultsTogether) {
  const auto parsed =
      Parse({"--http-port", "70000", "--grpc-port", "12x", "--cache-bytes", "9999999999G",
             "--device", "tpu", "--max-num-seqs", "0", "--drain-timeout", "-1", "--no-such-flag"});
  ASSERT_TRUE(std::holds_alternative<EarlyExit>(parsed));
  const EarlyExit& exit = std::get<EarlyExit>(parsed);
  EXPECT_EQ(exit.code, kExitUsage);
  for (const char* part : {"8 fault(s)", "no model", "70000", "12x", "9999999999G", "tpu",
                           "--max-num-seqs: '0'", "--drain-timeout: '-1'", "'--no-such-flag'"}) {
    EXPECT_THAT(exit.text, HasSubstr(part));
  }
}

// Kills: two servers on one port found out by the second one, a bad port that clashes with a
// default.
TEST(Flags, PortsDiffer) {
  const auto same = Parse({"m", "--http-port", "50051"});
  ASSERT_TRUE(std::holds_alternative<EarlyExit>(same));
  EXPECT_THAT(std::get<EarlyExit>(same).text, HasSubstr("are both 50051"));
  const auto bad = Parse({"m", "--http-port", "70000", "--grpc-port", "8000"});
  ASSERT_TRUE(std::holds_alternative<EarlyExit>(bad));
  EXPECT_THAT(std::get<EarlyExit>(bad).text, HasSubstr("1 fault(s)"));
  EXPECT_TRUE(std::holds_alternative<Flags>(Parse({"m", "--port", "0", "--grpc-port", "0"})));
}

TEST(Flags, HelpAndVersionLeaveClean) {
  for (const char* flag : {"--help", "--version"}) {
    const auto parsed = Parse({flag});
    ASSERT_TRUE(std::holds_alternative<EarlyExit>(parsed));
    EXPECT_EQ(std::get<EarlyExit>(parsed).code, kExitClean);
  }
}

}  // namespace
}  // namespace k3::server
