// Who is served when both long and short prompts, or more and less urgent ones, want rows.
#include <map>

#include <gtest/gtest.h>

#include "runtime/schedule/fake_executor.h"
#include "runtime/schedule/scheduler.h"

namespace k3::runtime {
namespace {

constexpr int kVocabulary = 50;
constexpr int kRows = 32;

SchedulerLimits Limits() {
  return {.max_num_seqs = 8,
          .max_num_batched_tokens = 64,
          .max_queued_requests = 1000,
          .max_model_len = 4000,
          .state_pages = 2,
          .num_pages = 1000,
          .vocab_size = kVocabulary,
          .long_prefill_tokens = 100};
}

// A scheduler, its executor, and who got how many rows and tokens.
class Bench {
 public:
  explicit Bench(const SchedulerLimits& limits)
      : scheduler_(limits), executor_(limits.num_pages, limits.max_num_seqs, kVocabulary) {}

  RequestId Add(int prompt, int max_new, int priority = 0) {
    const auto id = static_cast<RequestId>(++last_id_);
    Request request;
    request.prompt.assign(static_cast<std::size_t>(prompt), 3);
    request.max_new_tokens = max_new;
    request.priority = priority;
    EXPECT_TRUE(scheduler_.Add(id, request).ok());
    return id;
  }
  // The rows each sequence had in the step.
  std::map<RequestId, int> Step(int prefill_rows = kRows) {
    std::map<RequestId, int> rows;
    const Plan& plan = scheduler_.Next(prefill_rows);
    for (const PlanRun& run : plan.runs) {
      rows[run.sequence] = static_cast<int>(run.tokens.size());
    }
    if (plan.empty()) return rows;
    const StepResult result = executor_.Run(plan);
    for (const Emission& emission : scheduler_.Advance(result)) {
      if (std::holds_alternative<NewToken>(emission.what)) ++tokens_[emission.request];
    }
    return rows;
  }
  int tokens(RequestId id) const {
    const auto it = tokens_.find(id);
    return it == tokens_.end() ? 0 : it->second;
  }
  Scheduler& scheduler() { return scheduler_; }

 private:
  Scheduler scheduler_;
  FakeExecutor executor_;
  std::map<RequestId, int> tokens_;
  std::uint64_t last_id_ = 0;
};

// Kills: one queue for all (the short one waits for the long one's 2000 rows), a long one that
// takes the whole step, a long one that starves while short ones keep coming, rows left unused.
TEST(Fairness, ShortAndLongShareTheStep) {
  Bench bench(Limits());
  const RequestId late = bench.Add(2000, 1);
  bench.Step();
  int long_rows = 0, steps = 0;
  while (bench.tokens(late) == 0) {
    const RequestId brief = bench.Add(kRows / 2, 1);
    const auto rows = bench.Step();
    ASSERT_EQ(bench.tokens(brief), 1) << "a short prompt fits its half at once";
    const int taken = rows.count(late) != 0 ? rows.at(late) : 0;
    ASSERT_LE(taken, kRows / 2);
    long_rows += taken;
    ++steps;
  }
  EXPECT_GE(long_rows, steps * kRows / 2 - kRows);
}

// Kills: the half kept back from a long prompt when nobody else wants it, for one or for both
// reasons: no short prompt at all, or one that needs less.
TEST(Fairness, WhatTheShortLeaveTheLongTakes) {
  Bench bench(Limits());
  const RequestId late = bench.Add(2000, 1);
  EXPECT_EQ(bench.Step().at(late), kRows);
  bench.Add(4, 1);
  EXPECT_EQ(bench.Step().at(late), kRows - 4);
  EXPECT_EQ(bench.Step().at(late), kRows);
}

// Kills: a budget of one row that always goes to the same class.
TEST(Fairness, OneRowIsTakenInTurns) {
  Bench bench(Limits());
  const RequestId late = bench.Add(200, 1), brief = bench.Add(50, 1);
  int late_rows = 0, brief_rows = 0;
  for (int step = 0; step < 40; ++step) {
    const auto rows = bench.Step(1);
    late_rows += rows.count(late) != 0 ? rows.at(late) : 0;
    brief_rows += rows.count(brief) != 0 ? rows.at(brief) : 0;
  }
  EXPECT_EQ(late_rows, 20);
  EXPECT_EQ(brief_rows, 20);
}

// Kills: long prompts that are all started at once and take every slot.
TEST(Fairness, LongPromptsLeaveSlots) {
  Bench bench(Limits());
  for (int i = 0; i < 8; ++i) bench.Add(200, 1);
  for (int step = 0; step < 3; ++step) bench.Step();
  const RequestId brief = bench.Add(5, 1);
  bench.Step();
  EXPECT_EQ(bench.tokens(brief), 1);
}

// Kills: a long prompt that waits for pages for ever while short ones take each page that is freed.
TEST(Fairness, ALongPromptGetsItsPages) {
  SchedulerLimits limits = Limits();
  limits.num_pages = 40;
  limits.max_model_len = 16 * 38;
  Bench bench(limits);
  for (int i = 0; i < 4; ++i) bench.Add(20, 30);
  bench.Step();
  const RequestId late = bench.Add(560, 1);
  int steps = 0;
  while (bench.tokens(late) == 0) {
    if (bench.scheduler().num_waiting() < 4) bench.Add(20, 30);
    bench.Step();
    ASSERT_LT(++steps, 3000) << "starved";
  }
}

// Kills: priority ignored in the queue, or taken the wrong way round; preemption of the more
// urgent.
TEST(Fairness, TheUrgentGoFirst) {
  SchedulerLimits limits = Limits();
  limits.max_num_seqs = 1;
  Bench bench(limits);
  const RequestId running = bench.Add(4, 6);
  bench.Step();
  const RequestId later = bench.Add(4, 3, 5), normal = bench.Add(4, 3),
                  urgent = bench.Add(4, 3, -5);
  while (bench.tokens(running) < 6) bench.Step();
  while (bench.tokens(urgent) < 3) bench.Step();
  EXPECT_EQ(bench.tokens(normal), 0);
  while (bench.tokens(normal) < 3) bench.Step();
  EXPECT_EQ(bench.tokens(later), 0);
}

// Kills: a paused sequence that keeps its slot from one that could run, and one that is forgotten.
TEST(Fairness, APausedSequenceGivesWayAndComesBack) {
  SchedulerLimits limits = Limits();
  limits.max_num_seqs = 1;
  Bench bench(limits);
  const RequestId slow = bench.Add(40, 20);
  for (int step = 0; step < 5; ++step) bench.Step();
  bench.scheduler().SetPaused(slow, true);
  EXPECT_TRUE(bench.Step().empty());
  const RequestId other = bench.Add(4, 2);
  for (int step = 0; step < 2; ++step) bench.Step();
  EXPECT_EQ(bench.tokens(other), 2);
  bench.scheduler().SetPaused(slow, false);
  const int before = bench.tokens(slow);
  const auto rows = bench.Step();
  EXPECT_LT(rows.at(slow), 16) << "what stood on the grid was kept";
  EXPECT_EQ(bench.tokens(slow), before + 1);
  EXPECT_EQ(bench.scheduler().num_recomputed_tokens(), rows.at(slow));
}

}  // namespace
}  // namespace k3::runtime
