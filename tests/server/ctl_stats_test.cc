// k3ctl bench, the pure part: its statistics and its plan.
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include <gmock/gmock.h>

#include "server/ctl/bench.h"
#include "server/ctl/bench_plan.h"
#include "server/ctl/bench_progress.h"
#include "server/ctl/bench_stats.h"

namespace k3::server::ctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::SizeIs;

constexpr std::array kPercents = {0.0, 50.0, 90.0, 99.0, 100.0};

RequestRecord Answer(std::initializer_list<double> arrivals_s, std::uint64_t tokens_each = 1) {
  RequestRecord record;
  record.input_tokens = 10;
  record.cached_tokens = 4;
  for (const double at_s : arrivals_s) record.Arrived(tokens_each, at_s);
  return record;
}

// Kills: nearest rank (3 or 4 for 3.7), rank p/100 n (2.8 at 50), no rank clamp (a read past the
// end at 100), values taken unsorted. The expected ones are numpy.percentile's.
TEST(BenchStats, PercentilesInterpolateAsNumpy) {
  const Distribution all = Describe({4, 1, 3, 2}, kPercents);
  EXPECT_DOUBLE_EQ(all.percentiles[0], 1);
  EXPECT_DOUBLE_EQ(all.percentiles[1], 2.5);
  EXPECT_DOUBLE_EQ(all.percentiles[2], 3.7);
  EXPECT_DOUBLE_EQ(all.percentiles[3], 3.97);
  EXPECT_DOUBLE_EQ(all.percentiles[4], 4);
  EXPECT_DOUBLE_EQ(all.median, 2.5);
  EXPECT_DOUBLE_EQ(all.mean, 2.5);
  EXPECT_DOUBLE_EQ(all.std, std::sqrt(1.25));  // kills: divided by n - 1 (sqrt(5/3))
}

// Kills: a division by zero samples, NaN in the result file, a percentile of nothing that reads.
TEST(BenchStats, NothingIsZeroAndOneIsItself) {
  const Distribution none = Describe({}, kPercents);
  EXPECT_THAT(none.percentiles, ElementsAre(0, 0, 0, 0, 0));
  EXPECT_EQ(none.mean, 0);
  EXPECT_EQ(none.std, 0);
  const Distribution one = Describe({7}, kPercents);
  EXPECT_THAT(one.percentiles, ElementsAre(7, 7, 7, 7, 7));
  EXPECT_EQ(one.mean, 7);
  EXPECT_EQ(one.std, 0);
}

// Kills: an ITL a token instead of an arrival (5 gaps), a gap for a delta without tokens, TTFT
// that moves with later arrivals, TPOT over all tokens (0.06) or over arrivals (0.15).
TEST(BenchStats, AnArrivalOfSeveralTokensIsOne) {
  RequestRecord record;
  record.Arrived(0, 0.05);
  record.Arrived(2, 0.1);
  record.Arrived(3, 0.3);
  record.Arrived(0, 0.35);
  record.Arrived(1, 0.4);
  EXPECT_EQ(record.output_tokens, 6U);
  EXPECT_DOUBLE_EQ(record.ttft_s.value(), 0.1);
  ASSERT_THAT(record.itl_s, SizeIs(2));
  EXPECT_DOUBLE_EQ(record.ttft_s.value() + record.itl_s[0] + record.itl_s[1], record.e2el_s);
  EXPECT_DOUBLE_EQ(TimePerOutputToken(record).value(), 0.06);
}

// Kills: TPOT of a one-token answer as 0 in the mean (it would halve it), as a division by zero.
TEST(BenchStats, OneTokenHasNoTimePerToken) {
  EXPECT_FALSE(TimePerOutputToken(Answer({0.5})));
  EXPECT_FALSE(TimePerOutputToken(RequestRecord()));
  const std::vector<RequestRecord> records = {Answer({0.5}), Answer({0.1, 0.2, 0.5})};
  const BenchSummary summary = Summarize(records, kPercents, {});
  EXPECT_DOUBLE_EQ(summary.tpot_ms.mean, 200);
  EXPECT_DOUBLE_EQ(summary.ttft_ms.mean, 300);
  EXPECT_DOUBLE_EQ(summary.e2el_ms.mean, 500);
  EXPECT_EQ(summary.output_tokens, 4U);
}

// Kills: latencies or tokens of failed requests in the statistics, failures not told apart, an
// answer without tokens as TTFT 0.
TEST(BenchStats, FailedRequestsCountAsFailedOnly) {
  std::vector<RequestRecord> records = {Answer({1, 2}), Answer({90, 99}), Answer({}), Answer({}),
                                        Answer({})};
  records[1].error = "ABORTED";
  records[2].error = records[3].error = "QUEUE_FULL";
  const BenchSummary summary = Summarize(records, kPercents, {});
  EXPECT_EQ(summary.completed, 2U);
  EXPECT_EQ(summary.failed, 3U);
  EXPECT_EQ(summary.failures.at("ABORTED"), 1U);
  EXPECT_EQ(summary.failures.at("QUEUE_FULL"), 2U);
  EXPECT_EQ(summary.input_tokens, 20U);
  EXPECT_EQ(summary.cached_tokens, 8U);
  EXPECT_EQ(summary.output_tokens, 2U);
  EXPECT_DOUBLE_EQ(summary.ttft_ms.mean, 1000);
  EXPECT_DOUBLE_EQ(summary.itl_ms.mean, 1000);
}

// Kills: a limit that must be undercut, "any of them" for "all of them", seconds for milliseconds,
// a one-token answer that fails a TPOT limit, a failed request that is good.
TEST(BenchStats, GoodIsWithinEveryLimit) {
  const RequestRecord record = Answer({0.25, 0.5, 0.75});
  EXPECT_TRUE(IsGood(record, {}));
  EXPECT_TRUE(IsGood(record, {250, 250, 750}));
  EXPECT_FALSE(IsGood(record, {249, 250, 750}));
  EXPECT_FALSE(IsGood(record, {250, 249, 750}));
  EXPECT_FALSE(IsGood(record, {250, 250, 749}));
  EXPECT_TRUE(IsGood(Answer({0.25}), {{}, 1, {}}));
  RequestRecord failed = record;
  failed.error = "INTERNAL";
  EXPECT_FALSE(IsGood(failed, {}));
}

// Kills: an eos id or one beyond the vocabulary, a last allowed id that is never drawn, excluded
// ids that are skipped in the wrong order (2, 3, 5 unsorted and twice).
TEST(BenchPlan, RandomIdsAreValid) {
  Random random(1);
  const RandomPrompts wanted{8, {5, 2, 3, 2, 100}, 50, 40, 1, 0, 0, 1};
  std::set<std::uint32_t> seen;
  for (const Prompt& prompt : MakePrompts(wanted, random)) {
    EXPECT_THAT(prompt.ids, SizeIs(40));
    seen.insert(prompt.ids.begin(), prompt.ids.end());
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 4, 6, 7));
}

// Kills: one prefix for all groups, a prefix made anew for each request, bodies that are shared, a
// prefix that depends on how many requests there are, lengths outside of the range or all equal.
TEST(BenchPlan, GroupsShareTheirPrefixOnly) {
  const auto make = [](int count) {
    Random random(7);
    return MakePrompts({1000, {}, count, 20, 10, 0.5, 16, 3}, random);
  };
  const std::vector<Prompt> prompts = make(30);
  const auto prefix = [](const Prompt& prompt) {
    return std::vector(prompt.ids.begin(), prompt.ids.begin() + 16);
  };
  std::set<std::vector<std::uint32_t>> prefixes, all;
  std::set<std::size_t> lengths;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(prefix(prompts[i]), prefix(prompts[i % 3]));
    EXPECT_THAT(prompts[i].ids.size() - 16, AllOf(Ge(10U), Le(30U)));
    EXPECT_THAT(prompts[i].output_tokens, AllOf(Ge(5), Le(15)));
    prefixes.insert(prefix(prompts[i]));
    all.insert(prompts[i].ids);
    lengths.insert(prompts[i].ids.size());
  }
  EXPECT_THAT(prefixes, SizeIs(3));
  EXPECT_THAT(all, SizeIs(30));
  EXPECT_GT(lengths.size(), 5U);
  EXPECT_EQ(prefix(make(4)[2]), prefix(prompts[2]));
}

double VariationOfGaps(const std::vector<double>& times) {
  std::vector<double> gaps(times.size());
  std::adjacent_difference(times.begin(), times.end(), gaps.begin());
  const Distribution all = Describe(gaps, {});
  return all.std / all.mean;
}

// Kills: rate and gap confused, constant gaps, burstiness upside down or without effect: a gamma
// distribution of shape b varies by 1 / sqrt(b).
TEST(BenchPlan, ArrivalsHaveTheRateAndTheBurstiness) {
  Random random(3);
  EXPECT_THAT(ArrivalTimes(3, std::numeric_limits<double>::infinity(), 1, random),
              ElementsAre(0, 0, 0));
  const std::vector<double> poisson = ArrivalTimes(4000, 50, 1, random);
  EXPECT_TRUE(std::is_sorted(poisson.begin(), poisson.end()));
  EXPECT_NEAR(poisson.back(), 80, 1e-6);
  EXPECT_NEAR(VariationOfGaps(poisson), 1, 0.1);
  EXPECT_NEAR(VariationOfGaps(ArrivalTimes(4000, 50, 0.25, random)), 2, 0.3);
  EXPECT_NEAR(VariationOfGaps(ArrivalTimes(4000, 50, 16, random)), 0.25, 0.03);
}

// Kills: an output_len that is not read or not optional, empty lines as prompts, a carriage return
// in a prompt, plain text taken for JSON.
TEST(BenchPlan, FilesOfBothKinds) {
  const auto json = ParsePrompts(
      "{\"prompt\": \"a\\nb\", \"output_len\": 7}\n\n{\"prompt\": \"{c\", \"more\": 1}\r\n", 9);
  ASSERT_TRUE(json.ok());
  ASSERT_THAT(json.value(), SizeIs(2));
  EXPECT_EQ(json.value()[0].text, "a\nb");
  EXPECT_EQ(json.value()[0].output_tokens, 7);
  EXPECT_EQ(json.value()[1].text, "{c");
  EXPECT_EQ(json.value()[1].output_tokens, 9);
  const auto plain = ParsePrompts("first {\r\n  \n{second}", 9);
  ASSERT_TRUE(plain.ok());
  ASSERT_THAT(plain.value(), SizeIs(2));
  EXPECT_EQ(plain.value()[0].text, "first {");
  EXPECT_EQ(plain.value()[1].text, "{second}");
  EXPECT_EQ(plain.value()[1].output_tokens, 9);
}

// Kills: the first fault alone, a line number that counts prompts, an empty file that is fine.
TEST(BenchPlan, FilesAreRefusedWithEveryFault) {
  const auto refused = ParsePrompts(
      "{\"prompt\": \"a\"}\n\n{broken\n{\"prompt\": 3}\n{\"prompt\": \"x\", \"output_len\": 0}", 9);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "line 3: not a JSON object\nline 4: no string \"prompt\"\n"
            "line 5: \"output_len\" is below 1\n");
  EXPECT_FALSE(ParsePrompts(" \n\n", 9).ok());
}

// Kills: contradictory flags that are obeyed in part, one fault at a time, a goodput that is
// dropped or read in the wrong unit.
TEST(BenchCommandTest, FaultsAreToldTogether) {
  BenchCommand wrong;
  wrong.concurrency = 2;
  wrong.request_rate = 3;
  wrong.random_range_ratio = 1;
  wrong.metric_percentiles = {101};
  wrong.percentile_metrics = {"ttfb"};
  wrong.goodput = {"ttft:", "itl:3", "tpot:-1", "e2el:1x"};
  const auto refused = CheckBench(wrong);
  ASSERT_FALSE(refused.ok());
  for (const char* word : {"--concurrency", "--random-range-ratio", "--metric-percentiles", "ttfb",
                           "ttft:", "itl:3", "tpot:-1", "e2el:1x"}) {
    EXPECT_THAT(refused.error().message, HasSubstr(word));
  }
  BenchCommand right;
  right.goodput = {"ttft:200", "e2el:1500.5"};
  const auto goodput = CheckBench(right);
  ASSERT_TRUE(goodput.ok());
  EXPECT_EQ(goodput.value().ttft_ms, 200);
  EXPECT_EQ(goodput.value().tpot_ms, std::nullopt);
  EXPECT_EQ(goodput.value().e2el_ms, 1500.5);
}

// Kills: a bar that is full too early or overflows, a division by zero at the start.
TEST(BenchProgressTest, BarAndLine) {
  EXPECT_THAT(ProgressLine({}, true), HasSubstr("[........................] 0/0 done"));
  const BenchProgress half{10, 5, 1, 2, 300, 4.0};
  EXPECT_EQ(ProgressLine(half, true),
            "[############............] 5/10 done, 1 failed, 2 in flight, 75.0 output tokens/s, "
            "4 s");
  EXPECT_THAT(ProgressLine({10, 10, 0, 0, 1, 1}, true), HasSubstr("[########################] "));
}

}  // namespace
}  // namespace k3::server::ctl
