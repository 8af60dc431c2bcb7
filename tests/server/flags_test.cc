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
  return ParseFlags(static_cast<int>(arguments.size()), arguments.data());
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

TEST(Flags, HelpAndVersionLeaveClean) {
  for (const char* flag : {"--help", "--version"}) {
    const auto parsed = Parse({flag});
    ASSERT_TRUE(std::holds_alternative<EarlyExit>(parsed));
    EXPECT_EQ(std::get<EarlyExit>(parsed).code, kExitClean);
  }
}

}  // namespace
}  // namespace k3::server
