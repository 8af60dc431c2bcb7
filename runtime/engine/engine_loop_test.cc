// Threads against the engine's loop, on the executor that checks every plan.
#include "runtime/engine/engine_loop.h"

#include <atomic>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/schedule/fake_executor.h"

namespace k3::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kVocabulary = 60;

// Waits at each step while it is shut: a test decides when the engine may go on.
class Gate {
 public:
  void Open() { Set(true); }
  void Shut() { Set(false); }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  // Until a step stands before the gate.
  void AwaitArrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return arrived_ > 0; });
  }

 private:
  void Set(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int arrived_ = 0;
};

// Opens the gate on the way out, also of a test that failed: the loop's thread stands before it.
struct OpenAtEnd {
  Gate& gate;
  ~OpenAtEnd() { gate.Open(); }
};

class GatedExecutor final : public Executor {
 public:
  GatedExecutor(const SchedulerLimits& limits, Gate* gate)
      : fake_(limits.num_pages, limits.max_num_seqs, kVocabulary), gate_(gate) {}
  StepResult Run(const Plan& plan) override {
    if (gate_ != nullptr) gate_->Pass();
    return fake_.Run(plan);
  }

 private:
  FakeExecutor fake_;
  Gate* gate_;
};

LoopLimits Limits() {
  return {.scheduler = {.max_num_seqs = 4,
                        .max_num_batched_tokens = 24,
                        .max_model_len = 100,
                        .state_pages = 2,
                        .num_pages = 22,
                        .vocab_size = kVocabulary},
          .max_queued_requests = 3};
}

Submitted SubmitOne(EngineLoop& loop, const Request& request, Outbox* box) {
  return loop.Submit(request, std::span<Outbox* const>(&box, 1));
}
bool Accepted(const Submitted& submitted) {
  return std::holds_alternative<RequestId>(submitted);
}
const Refusal& RefusalOf(const Submitted& submitted) {
  return std::get<Refusal>(submitted);
}

// One request's consumer: waits until its box was woken, gathers what came.
class Client {
 public:
  Client() : box_([signal = signal_] { signal->Raise(); }) {}
  Outbox* box() { return &box_; }
  Outcome AwaitEnd() {
    Outcome outcome;
    while (!outcome.finished) {
      signal_->Await();
      Outbox::Batch batch = box_.Take();
      if (batch.started) ++outcome.started;
      outcome.tokens.insert(outcome.tokens.end(), batch.tokens.begin(), batch.tokens.end());
      outcome.finished = batch.finished;
    }
    return outcome;
  }

 private:
  struct Signal {
    void Raise() {
      const std::lock_guard lock(mutex);
      raised = true;
      changed.notify_one();
    }
    void Await() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return raised; });
      raised = false;
    }
    std::mutex mutex;
    std::condition_variable changed;
    bool raised = false;
  };
  std::shared_ptr<Signal> signal_ = std::make_shared<Signal>();
  Outbox box_;
};

Request RandomRequest(std::mt19937& rng) {
  Request request;
  request.prompt.resize(1 + rng() % 40);
  for (Token& token : request.prompt) token = static_cast<Token>(rng() % kVocabulary);
  request.max_new_tokens = 1 + static_cast<int>(rng() % 30);
  if (rng() % 2 == 0) request.eos_ids = {static_cast<Token>(rng() % kVocabulary)};
  return request;
}

// What came is what the request gives alone, or as far as it came.
void ExpectAsAlone(const Outcome& got, const Outcome& want, bool cancelled) {
  if (got.finished->reason != FinishReason::kAborted) {
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_EQ(got.finished->reason, want.finished->reason);
    return;
  }
  EXPECT_TRUE(cancelled);
  EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), want.tokens.begin()));
}

struct Tally {
  std::atomic<int> finished{0}, refused{0};
};

// Sixty requests one after another, a quarter of them cancelled.
void AskAndCancel(unsigned seed, EngineLoop& loop, int max_model_len, Tally& tally) {
  const FakeExecutor model(1, 1, kVocabulary);
  std::mt19937 rng(seed);
  for (int i = 0; i < 60; ++i) {
    const Request request = RandomRequest(rng);
    auto client = std::make_unique<Client>();
    const Submitted id = SubmitOne(loop, request, client->box());
    if (!Accepted(id)) {
      EXPECT_EQ(RefusalOf(id).why, Refusal::Why::kQueueFull);
      EXPECT_GT(RefusalOf(id).retry_after_ms, 0);
      ++tally.refused;
      continue;
    }
    const bool cancel = rng() % 4 == 0;
    if (cancel) loop.End(std::get<RequestId>(id), FinishReason::kAborted, {});
    const Outcome got = client->AwaitEnd();
    client.reset();
    ++tally.finished;
    ExpectAsAlone(got, model.Alone(request, max_model_len), cancel);
  }
}

// Kills: a request answered twice or never, tokens of another request in the box, a box used after
// its Finished (ASan, TSan), a cancel that reaches the wrong one, a deadlock between inbox and
// loop.
TEST(EngineLoop, ManyThreadsEachGetTheirOwn) {
  EngineCounters counters;
  const LoopLimits limits = Limits();
  EngineLoop loop(limits, std::make_unique<GatedExecutor>(limits.scheduler, nullptr), counters);
  Tally tally;
  std::vector<std::thread> threads;
  for (unsigned worker = 0; worker < 6; ++worker) {
    threads.emplace_back(
        [&, worker] { AskAndCancel(worker, loop, limits.scheduler.max_model_len, tally); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tally.finished + tally.refused, 360);
  EXPECT_GT(tally.finished, 60);
  EXPECT_TRUE(loop.Drain(seconds(10)));
  EXPECT_EQ(counters.pages_free.value(), limits.scheduler.num_pages);
  std::uint64_t ended = 0;
  for (const Counter& counter : counters.requests_finished) ended += counter.value();
  EXPECT_EQ(ended, static_cast<std::uint64_t>(tally.finished));
}

// Kills: a queue without a bound, a bound that refuses while places are free, a refusal that
// touches the box, a time to first token counted per step instead of per request.
TEST(EngineLoop, QueueIsBounded) {
  EngineCounters counters;
  const LoopLimits limits = Limits();
  Gate gate;
  gate.Shut();
  EngineLoop loop(limits, std::make_unique<GatedExecutor>(limits.scheduler, &gate), counters);
  const OpenAtEnd open{gate};
  std::mt19937 rng(1);
  std::vector<std::unique_ptr<Client>> accepted;
  int refused = 0;
  for (int i = 0; i < 20; ++i) {
    auto client = std::make_unique<Client>();
    if (Accepted(SubmitOne(loop, RandomRequest(rng), client->box()))) {
      accepted.push_back(std::move(client));
    } else {
      ++refused;
      EXPECT_TRUE(client->box()->Take().empty());
    }
    if (i == 0) gate.AwaitArrival();  // from now on nothing leaves the inbox
  }
  // One runs, three take the free places, three wait.
  EXPECT_EQ(accepted.size(), 4U + 3U);
  EXPECT_EQ(accepted.size() + static_cast<std::size_t>(refused), 20U);
  gate.Open();
  for (const auto& client : accepted) client->AwaitEnd();
  EXPECT_TRUE(loop.Drain(seconds(10)));
  std::uint64_t first_tokens = 0;
  for (std::size_t i = 0; i <= kTtftBounds.size(); ++i) {
    first_tokens += counters.time_to_first_token_seconds.count(i);
  }
  EXPECT_LE(first_tokens, accepted.size());
}

// Kills: a drain that takes new work, one that says done while something runs, a stop that leaves a
// client waiting.
TEST(EngineLoop, DrainAndStop) {
  EngineCounters counters;
  const LoopLimits limits = Limits();
  Gate gate;
  gate.Shut();
  EngineLoop loop(limits, std::make_unique<GatedExecutor>(limits.scheduler, &gate), counters);
  const OpenAtEnd open{gate};
  std::mt19937 rng(2);
  Client running, queued;
  ASSERT_TRUE(Accepted(SubmitOne(loop, RandomRequest(rng), running.box())));
  gate.AwaitArrival();
  ASSERT_TRUE(Accepted(SubmitOne(loop, RandomRequest(rng), queued.box())));
  EXPECT_FALSE(loop.Drain(milliseconds(5)));
  Client late;
  const Submitted refused = SubmitOne(loop, RandomRequest(rng), late.box());
  ASSERT_FALSE(Accepted(refused));
  EXPECT_EQ(RefusalOf(refused).why, Refusal::Why::kStopping);
  std::thread stopper([&] { loop.Stop(); });
  gate.Open();
  EXPECT_TRUE(running.AwaitEnd().finished.has_value());
  EXPECT_TRUE(queued.AwaitEnd().finished.has_value());
  stopper.join();
}

// Kills: each check that is missing or off by one.
TEST(EngineLoop, RefusesBadRequests) {
  EngineCounters counters;
  const LoopLimits limits = Limits();
  EngineLoop loop(limits, std::make_unique<GatedExecutor>(limits.scheduler, nullptr), counters);
  const auto why = [&](const Request& request) {
    Client client;
    const Submitted id = SubmitOne(loop, request, client.box());
    if (Accepted(id)) {
      client.AwaitEnd();
      return std::string("accepted");
    }
    EXPECT_EQ(RefusalOf(id).why, Refusal::Why::kInvalid);
    EXPECT_TRUE(client.box()->Take().empty());
    return RefusalOf(id).message;
  };
  const Request good{.prompt = std::vector<Token>(99, 3), .max_new_tokens = 5};
  EXPECT_EQ(why(good), "accepted");
  Request bad = good;
  bad.prompt.clear();
  EXPECT_THAT(why(bad), ::testing::HasSubstr("empty"));
  bad.prompt.assign(100, 3);
  EXPECT_THAT(why(bad), ::testing::HasSubstr("100 tokens; at most 99"));
  bad.prompt = {1, kVocabulary};
  EXPECT_THAT(why(bad), ::testing::HasSubstr("token 60"));
  bad.prompt = {-1};
  EXPECT_THAT(why(bad), ::testing::HasSubstr("token -1"));
  bad = good;
  bad.sampling.temperature = NAN;
  EXPECT_THAT(why(bad), ::testing::HasSubstr("temperature"));
  bad = good;
  bad.sampling.top_p = 0;
  EXPECT_THAT(why(bad), ::testing::HasSubstr("top_p"));
  bad = good;
  bad.max_new_tokens = 0;
  EXPECT_THAT(why(bad), ::testing::HasSubstr("max_new_tokens"));
  bad = good;
  bad.sampling.logit_bias = {{.id = kVocabulary, .bias = 1}};
  EXPECT_THAT(why(bad), ::testing::HasSubstr("logit_bias"));
  bad = good;
  bad.sampling.repetition_penalty = 0;
  EXPECT_THAT(why(bad), ::testing::HasSubstr("repetition_penalty"));
  bad = good;
  bad.sampling.logprobs = kMaxLogprobs + 1;
  EXPECT_THAT(why(bad), ::testing::HasSubstr("logprobs"));
}

Request Endless(int prompt = 5) {
  return {.prompt = std::vector<Token>(static_cast<std::size_t>(prompt), 3)};
}

// Kills: choices that share an index, a call of which only some choices were taken, choices that
// could never live at once let in.
TEST(EngineLoop, ChoicesComeTogether) {
  EngineCounters counters;
  const LoopLimits limits = Limits();
  EngineLoop loop(limits, std::make_unique<GatedExecutor>(limits.scheduler, nullptr), counters);
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<Outbox*> boxes;
  boxes.reserve(5);
  for (int i = 0; i < 5; ++i) boxes.push_back(clients.emplace_back(new Client)->box());
  const Request request{.prompt = {3, 4}, .max_new_tokens = 9};
  const Submitted refused = loop.Submit(request, boxes);
  ASSERT_FALSE(Accepted(refused));
  EXPECT_EQ(RefusalOf(refused).why, Refusal::Why::kTooManyChoices);
  boxes.resize(3);
  ASSERT_TRUE(Accepted(loop.Submit(request, boxes)));
  const FakeExecutor model(1, 1, kVocabulary);
  for (unsigned choice = 0; choice < 3; ++choice) {
    Request alone = request;
    alone.sampling.choice = choice;
    EXPECT_EQ(clients[choice]->AwaitEnd().tokens,
              model.Alone(alone, limits.scheduler.max_model_len).tokens);
  }
}

// Kills: a bound on tokens that is ignored, or that refuses what would not have to wait.
TEST(EngineLoop, QueuedTokensAreBounded) {
  EngineCounters counters;
  LoopLimits limits = Limits();
  limits.scheduler.max_num_seqs = 1;
  limits.max_queued_tokens = 50;
  Client running, small, large;  // outlive the loop
  Gate gate;
  gate.Shut();
  EngineLoop loop(limits, std::make_unique<GatedExecutor>(limits.scheduler, &gate), counters);
  const OpenAtEnd open{gate};
  ASSERT_TRUE(Accepted(SubmitOne(loop, Endless(90), running.box()))) << "nothing waits";
  gate.AwaitArrival();
  ASSERT_TRUE(Accepted(SubmitOne(loop, Endless(30), small.box())));
  const Submitted refused = SubmitOne(loop, Endless(90), large.box());
  ASSERT_FALSE(Accepted(refused));
  EXPECT_EQ(RefusalOf(refused).why, Refusal::Why::kTokensFull);
}

// Kills: a deadline nobody looks at while the engine is idle, in the queue, or running; one of the
// queue that ends what has started.
TEST(EngineLoop, DeadlinesEndWork) {
  EngineCounters counters;
  LoopLimits limits = Limits();
  limits.scheduler.max_num_seqs = 1;
  limits.scheduler.max_model_len = 300;
  limits.max_unread_tokens = 2;  // so that the endless one stays
  Client running;
  EngineLoop loop(limits, std::make_unique<GatedExecutor>(limits.scheduler, nullptr), counters);
  Request late = Endless();
  late.deadline = std::chrono::steady_clock::now() + milliseconds(1000);
  late.queue_deadline = std::chrono::steady_clock::now() + milliseconds(200);
  ASSERT_TRUE(Accepted(SubmitOne(loop, late, running.box())));
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_FALSE(running.box()->Take().finished) << "started in time";
  std::this_thread::sleep_for(milliseconds(900));  // unread, so it is paused, not done
  EXPECT_EQ(running.AwaitEnd().finished->reason, FinishReason::kDeadline);
  EXPECT_TRUE(loop.Drain(seconds(10)));
  EXPECT_EQ(counters.pages_free.value(), limits.scheduler.num_pages);
}

// Kills: a box that grows for a reader that never comes, a paused sequence that never goes on, one
// whose reader is gone for good kept for ever, one that holds up another.
TEST(EngineLoop, SlowReadersPauseGoOnAndEnd) {
  EngineCounters counters;
  LoopLimits limits = Limits();
  limits.max_unread_tokens = 8;
  limits.slow_client_timeout = milliseconds(1000);
  Client gone, slow, quick;
  EngineLoop loop(limits, std::make_unique<GatedExecutor>(limits.scheduler, nullptr), counters);
  ASSERT_TRUE(Accepted(SubmitOne(loop, Endless(), gone.box())));
  ASSERT_TRUE(Accepted(SubmitOne(loop, Endless(), slow.box())));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_LE(gone.box()->num_unread(), 8);
  const Request request{.prompt = {7, 8, 9}, .max_new_tokens = 7};
  ASSERT_TRUE(Accepted(SubmitOne(loop, request, quick.box())));
  EXPECT_EQ(quick.AwaitEnd().finished->reason, FinishReason::kLengthMaxTokens);
  const FakeExecutor model(1, 1, kVocabulary);
  EXPECT_EQ(slow.AwaitEnd().tokens, model.Alone(Endless(), limits.scheduler.max_model_len).tokens);
  std::this_thread::sleep_for(limits.slow_client_timeout * 3 / 2);
  const Outcome outcome = gone.AwaitEnd();
  EXPECT_EQ(outcome.finished->reason, FinishReason::kSlowClient);
  EXPECT_EQ(outcome.tokens.size(), 8U);
  EXPECT_TRUE(loop.Drain(seconds(10)));
}

}  // namespace
}  // namespace k3::runtime
