#include "server/ctl/bench_run.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "kernels/base/check.h"
#include "proto/k3serve/v1/inference.pb.h"
#include "server/ctl/bench_progress.h"

namespace k3::server::ctl {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Numbers of calls that have ended: from gRPC's threads to the one that counts. Never holds more
// than there are calls in flight.
class EndedCalls {
 public:
  void Push(std::size_t call) {
    // Told under the lock: the last one's receiver may take this queue down at once.
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
    changed_.notify_one();
  }
  std::optional<std::size_t> PopBefore(Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline, [this] { return !calls_.empty(); })) return {};
    const std::size_t call = calls_.front();
    calls_.pop_front();
    return call;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::size_t> calls_;
};

struct Call {
  RequestRecord record;
  Clock::time_point sent;
  bool completed = false;

  void Take(const pb::GenerateEvent& event) {
    const double at_s = SecondsSince(sent);
    if (event.has_started()) {
      record.input_tokens = event.started().prompt_tokens();
      record.cached_tokens = event.started().cached_tokens();
    }
    if (event.has_delta()) record.Arrived(event.delta().num_tokens(), at_s);
    if (event.finished().reason() == pb::FINISH_REASON_ABORTED) record.error = "ABORTED";
    if (event.has_completed()) {
      completed = true;
      if (!record.ttft_s) record.e2el_s = at_s;
    }
  }

  void End(const Outcome& outcome) {
    if (!outcome.ok()) {
      record.error = outcome.reason;
      record.error_message = outcome.message;
    } else if (!completed && record.error.empty()) {
      record.error = "NOT_COMPLETED";
    }
  }
};

class Driver {
 public:
  Driver(const Remote& remote, const BenchLoad& load)
      : remote_(remote), load_(load), calls_(load.prompts.size()) {
    K3_CHECK(load.at_seconds.size() == load.prompts.size());
  }

  BenchRun Run() {
    progress_.total = static_cast<int>(calls_.size());
    while (progress_.finished < progress_.total) {
      while (MaySend() && Clock::now() >= NextArrival()) Send(next_++);
      const Clock::time_point wake = MaySend() ? NextArrival() : Clock::time_point::max();
      if (const auto ended = ended_.PopBefore(std::min(wake, view_.next()))) Count(calls_[*ended]);
      progress_.seconds = SecondsSince(began_);
      view_.Show(progress_, Clock::now());
    }
    run_.duration_s = SecondsSince(began_);
    view_.End(progress_);
    for (Call& call : calls_) run_.records.push_back(std::move(call.record));
    return std::move(run_);
  }

 private:
  bool MaySend() const {
    return next_ < calls_.size() &&
           (!load_.max_concurrency || progress_.in_flight < *load_.max_concurrency);
  }
  Clock::time_point NextArrival() const {
    return began_ + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double>(load_.at_seconds[next_]));
  }
  pb::GenerateRequest RequestFor(std::size_t number) const;
  void Send(std::size_t number);
  void Count(const Call& call);

  const Remote& remote_;
  const BenchLoad& load_;
  const Clock::time_point began_ = Clock::now();
  std::vector<Call> calls_;
  EndedCalls ended_;
  std::size_t next_ = 0;
  BenchProgress progress_;
  ProgressView view_;
  BenchRun run_;
};

pb::GenerateRequest Driver::RequestFor(std::size_t number) const {
  const Prompt& prompt = load_.prompts[number];
  pb::GenerateRequest request;
  request.set_request_id(load_.id_prefix + std::to_string(number));
  if (prompt.ids.empty()) {
    request.set_text(prompt.text);
  } else {
    request.mutable_token_ids()->mutable_ids()->Add(prompt.ids.begin(), prompt.ids.end());
  }
  request.mutable_sampling()->set_seed(load_.seed + number);
  if (load_.temperature) request.mutable_sampling()->set_temperature(*load_.temperature);
  request.mutable_stop()->set_max_new_tokens(prompt.output_tokens);
  request.mutable_stop()->set_ignore_eos(load_.ignore_eos);
  // The text is what users pay for. Without the ids beside it a token whose character is not yet
  // whole would arrive with the next one, and look late.
  request.mutable_output()->set_want_token_ids(true);
  return request;
}

void Driver::Send(std::size_t number) {
  const pb::GenerateRequest request = RequestFor(number);
  Call& call = calls_[number];
  call.record.start_s = SecondsSince(began_);
  ++progress_.in_flight;
  run_.peak_concurrency = std::max(run_.peak_concurrency, progress_.in_flight);
  call.sent = Clock::now();
  remote_.Stream(
      request, load_.timeout, [&call](const pb::GenerateEvent& event) { call.Take(event); },
      [this, &call, number](const Outcome& outcome) {
        call.End(outcome);
        ended_.Push(number);
      });
}

void Driver::Count(const Call& call) {
  --progress_.in_flight;
  ++progress_.finished;
  progress_.failed += call.record.error.empty() ? 0 : 1;
  progress_.output_tokens += call.record.output_tokens;
}

}  // namespace

BenchRun RunBench(const Remote& remote, const BenchLoad& load) {
  return Driver(remote, load).Run();
}

}  // namespace k3::server::ctl
