// Laws of the scheduler under random requests, cancels and tiny pools, on an executor that checks
// every plan against what the pages hold.
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "runtime/schedule/fake_executor.h"
#include "runtime/schedule/scheduler.h"

namespace k3::runtime {
namespace {

constexpr int kVocabulary = 50;
constexpr int kNanEvery = 400;

unsigned Seed() {
  const char* given = std::getenv("K3_LAW_SEED");
  return given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
}

class Law {
 public:
  explicit Law(unsigned seed) : rng_(seed) {
    limits_.max_num_seqs = 1 + Below(6);
    limits_.max_num_batched_tokens = limits_.max_num_seqs + Below(40);
    limits_.max_queued_requests = 1 + Below(8);
    limits_.state_pages = 1 + Below(3);
    limits_.num_pages = limits_.state_pages + 3 + Below(20);
    limits_.max_model_len = 2 + Below(static_cast<int>(PoolTokens(limits_)) - 1);
    scheduler_.emplace(limits_);
    executor_.emplace(limits_.num_pages, limits_.max_num_seqs, kVocabulary, kNanEvery);
  }

  void Run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFatalFailure(); ++step) Step(true);
    for (int step = 0; !scheduler_->idle() && !::testing::Test::HasFatalFailure(); ++step) {
      ASSERT_LT(step, 100000) << "no progress";
      Step(false);
    }
    for (const auto& [id, request] : requests_) Check(id, request);
    EXPECT_EQ(scheduler_->num_free_pages(), limits_.num_pages);
  }
  int preemptions() const { return scheduler_->num_preemptions(); }

 private:
  int Below(int n) { return n <= 1 ? 0 : static_cast<int>(rng_() % static_cast<unsigned>(n)); }

  void Step(bool arrivals) {
    if (arrivals && Below(3) == 0) Arrive();
    if (arrivals && Below(12) == 0 && !requests_.empty()) {
      auto it = requests_.begin();
      std::advance(it, Below(static_cast<int>(requests_.size())));
      if (auto emission = scheduler_->Cancel(it->first)) Take(*emission);
    }
    scheduler_->Audit();
    const Plan plan = scheduler_->Next();
    ASSERT_EQ(plan.empty(), scheduler_->idle()) << "work waits and nothing runs";
    ASSERT_LE(plan.num_rows(), limits_.max_num_batched_tokens);
    if (plan.empty()) return;
    const StepResult result = executor_->Run(plan);
    for (const Emission& emission : scheduler_->Advance(result)) Take(emission);
    scheduler_->Audit();
  }

  void Arrive() {
    Request request;
    request.prompt.resize(static_cast<std::size_t>(1 + Below(limits_.max_model_len + 2)));
    for (Token& token : request.prompt) token = Below(kVocabulary);
    if (Below(4) != 0) request.max_new_tokens = 1 + Below(60);
    if (Below(2) == 0) request.eos_ids = {Below(kVocabulary)};
    if (Below(3) == 0) request.stop_ids = {Below(kVocabulary)};
    const auto id = static_cast<RequestId>(++last_id_);
    const bool too_long = static_cast<int>(request.prompt.size()) >= limits_.max_model_len;
    const bool full = scheduler_->num_waiting() >= limits_.max_queued_requests;
    const Result<Ok> added = scheduler_->Add(id, request);
    ASSERT_EQ(added.ok(), !too_long && !full);
    if (added.ok()) requests_.emplace(id, request);
  }

  void Take(const Emission& emission) {
    Outcome& outcome = outcomes_[emission.request];
    ASSERT_FALSE(outcome.finished.has_value()) << "something after Finished";
    if (std::holds_alternative<Started>(emission.what)) ++outcome.started;
    if (const Token* token = std::get_if<Token>(&emission.what)) outcome.tokens.push_back(*token);
    if (const auto* end = std::get_if<Finished>(&emission.what)) outcome.finished = *end;
  }

  void Check(RequestId id, const Request& request) {
    const Outcome& got = outcomes_[id];
    const Outcome want = executor_->Alone(request, limits_.max_model_len);
    ASSERT_TRUE(got.finished.has_value());
    EXPECT_EQ(got.finished->usage.completion_tokens, static_cast<int>(got.tokens.size()));
    if (got.finished->reason == FinishReason::kAborted) {
      ASSERT_LE(got.tokens.size(), want.tokens.size());
      EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), want.tokens.begin()));
      return;
    }
    EXPECT_EQ(got.started, 1);
    EXPECT_EQ(got.finished->reason, want.finished->reason);
    EXPECT_EQ(got.tokens, want.tokens);
  }

  std::mt19937 rng_;
  SchedulerLimits limits_;
  std::optional<Scheduler> scheduler_;
  std::optional<FakeExecutor> executor_;
  std::map<RequestId, Request> requests_;
  std::map<RequestId, Outcome> outcomes_;
  std::uint64_t last_id_ = 0;
};

// Kills: a page or slot shared by two sequences, a page used before it was zeroed, a lease kept
// after cancel, a preempted sequence that repeats or loses a token, one that is resumed at a wrong
// position, starvation (work waits, nothing runs), a step over its budget, a finish emitted twice,
// a length limit off by one, a stop id leaked into the output.
TEST(ScheduleLaw, EveryRequestAsAlone) {
  const unsigned seed = Seed();
  std::printf("seed %u (K3_LAW_SEED)\n", seed);
  int preemptions = 0;
  const char* asked = std::getenv("K3_LAW_SECONDS");
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::seconds(asked != nullptr ? std::stoi(asked) : 0);
  for (unsigned round = 0; round < 300 || std::chrono::steady_clock::now() < until; ++round) {
    SCOPED_TRACE("K3_LAW_SEED=" + std::to_string(seed) + " round " + std::to_string(round));
    Law law(seed + round);
    law.Run(300);
    preemptions += law.preemptions();
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(preemptions, 100) << "the pools were too kind";
}

}  // namespace
}  // namespace k3::runtime
