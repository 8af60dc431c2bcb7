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
                        .num_pages = 22},
          .max_queued_requests = 3,
          .vocab_size = kVocabulary};
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

// Kills: a request answered twice or never, tokens of another request in the box, a box used after
// its Finished (ASan, TSan), a cancel that reaches the wrong one, a deadlock between inbox and
// loop.
TEST(EngineLoop, ManyThreadsEachGetTheirOwn) {
  EngineCounters counters;
  const LoopLimits limits = Limits();
  const FakeExecutor model(1, 1, kVocabulary);
  EngineLoop loop(limits, std::make_unique<GatedExecutor>(limits.scheduler, nullptr), counters);
  std::atomic<int> finished{0}, refused{0};
  std::vector<std::thread> threads;
  for (unsigned worker = 0; worker < 6; ++worker) {
    threads.emplace_back([&, worker] {
      std::mt19937 rng(worker);
      for (int i = 0; i < 60; ++i) {
        const Request request = RandomRequest(rng);
        auto client = std::make_unique<Client>();
        const Result<RequestId> id = loop.Submit(request, client->box());
        if (!id.ok()) {
          EXPECT_EQ(id.error().code, Code::kResourceExhausted);
          ++refused;
          continue;
        }
        const bool cancel = rng() % 4 == 0;
        if (cancel) loop.Cancel(id.value());
        const Outcome got = client->AwaitEnd();
        client.reset();
        ++finished;
        const Outcome want = model.Alone(request, limits.scheduler.max_model_len);
        if (got.finished->reason == FinishReason::kAborted) {
          EXPECT_TRUE(cancel);
          EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), want.tokens.begin()));
        } else {
          EXPECT_EQ(got.tokens, want.tokens);
          EXPECT_EQ(got.finished->reason, want.finished->reason);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(finished + refused, 360);
  EXPECT_GT(finished, 60);
  EXPECT_TRUE(loop.Drain(seconds(10)));
  EXPECT_EQ(counters.pages_free.value(), limits.scheduler.num_pages);
  std::uint64_t ended = 0;
  for (const Counter& counter : counters.requests_finished) ended += counter.value();
  EXPECT_EQ(ended, static_cast<std::uint64_t>(finished));
}

// Kills: a queue without a bound, a bound that refuses while places are free, a refusal that
// touches the box, a time to first token counted per step instead of per request.
TEST(EngineLoop, QueueIsBounded) {
  EngineCounters counters;
  const LoopLimits limits = Limits();
  Gate gate;
  gate.Shut();
  EngineLoop loop(limits, std::make_unique<GatedExecutor>(limits.scheduler, &gate), counters);
  std::mt19937 rng(1);
  std::vector<std::unique_ptr<Client>> accepted;
  int refused = 0;
  for (int i = 0; i < 20; ++i) {
    auto client = std::make_unique<Client>();
    if (loop.Submit(RandomRequest(rng), client->box()).ok()) {
      accepted.push_back(std::move(client));
    } else {
      ++refused;
      EXPECT_TRUE(client->box()->Take().empty());
    }
    if (i == 0) gate.AwaitArrival();  // from now on nothing leaves the inbox
  }
  // One runs; the loop has not told yet that it does, or it has: its place counts once either way.
  EXPECT_GE(accepted.size(), 4U + 3U);
  EXPECT_LE(accepted.size(), 1U + 4U + 3U);
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
  std::mt19937 rng(2);
  Client running, queued;
  ASSERT_TRUE(loop.Submit(RandomRequest(rng), running.box()).ok());
  gate.AwaitArrival();
  ASSERT_TRUE(loop.Submit(RandomRequest(rng), queued.box()).ok());
  EXPECT_FALSE(loop.Drain(milliseconds(5)));
  Client late;
  const Result<RequestId> refused = loop.Submit(RandomRequest(rng), late.box());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
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
    const Result<RequestId> id = loop.Submit(request, client.box());
    if (id.ok()) {
      client.AwaitEnd();
      return std::string("accepted");
    }
    EXPECT_EQ(id.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(client.box()->Take().empty());
    return id.error().message;
  };
  const Request good{.prompt = std::vector<Token>(99, 3), .max_new_tokens = 5};
  EXPECT_EQ(why(good), "accepted");
  Request bad = good;
  bad.prompt.clear();
  EXPECT_THAT(why(bad), ::testing::HasSubstr("empty"));
  bad.prompt.assign(100, 3);
  EXPECT_THAT(why(bad), ::testing::HasSubstr("100 tokens; at most 99"));
  bad.prompt = {1, kVocabulary};
  EXPECT_THAT(why(bad), ::testing::HasSubstr("token 1 is 60"));
  bad.prompt = {-1};
  EXPECT_THAT(why(bad), ::testing::HasSubstr("token 0 is -1"));
  bad = good;
  bad.sampling.temperature = NAN;
  EXPECT_THAT(why(bad), ::testing::HasSubstr("temperature"));
  bad.sampling.temperature = -0.1F;
  EXPECT_THAT(why(bad), ::testing::HasSubstr("temperature"));
  bad = good;
  bad.sampling.top_p = 0;
  EXPECT_THAT(why(bad), ::testing::HasSubstr("top_p"));
  bad = good;
  bad.max_new_tokens = 0;
  EXPECT_THAT(why(bad), ::testing::HasSubstr("max_new_tokens"));
}

}  // namespace
}  // namespace k3::runtime
