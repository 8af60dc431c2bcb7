#include "tests/server/fake_engine.h"

#include <utility>

namespace k3::server::testing {
namespace {

constexpr std::chrono::seconds kPatience{10};

}  // namespace

FakeEngine::FakeEngine() {
  info_.device = "fake";
  info_.isa = "none";
  info_.threads = 1;
  info_.max_model_len = 64;
  info_.max_num_seqs = 4;
  info_.max_num_batched_tokens = 16;
  info_.max_queued_requests = 8;
  info_.pages = 100;
  info_.vocab_size = 1 << 20;  // more than the tokenizer knows
}

runtime::Submitted FakeEngine::Submit(runtime::Request request,
                                      std::span<runtime::Outbox* const> outboxes) {
  const std::lock_guard lock(mutex_);
  if (refusal_) return *refusal_;
  const auto first = static_cast<runtime::RequestId>(entries_.size());
  for (runtime::Outbox* outbox : outboxes) {
    entries_.push_back({request, outbox, 0, false});
    ++request.sampling.choice;
  }
  changed_.notify_all();
  return first;
}

void FakeEngine::End(runtime::RequestId id, runtime::FinishReason reason,
                     std::optional<int> completion_tokens) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(static_cast<std::size_t>(id));
  entry.ended = true;
  if (completion_tokens) entry.generated = *completion_tokens;
  FinishLocked(entry, reason, "");
  changed_.notify_all();
}

bool FakeEngine::Drain(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  refusal_ = runtime::Refusal{runtime::Refusal::Why::kStopping, "draining", {}};
  return changed_.wait_for(lock, timeout, [this] {
    for (const Entry& entry : entries_) {
      if (entry.outbox != nullptr) return false;
    }
    return true;
  });
}

void FakeEngine::Stop() {
  const std::lock_guard lock(mutex_);
  refusal_ = runtime::Refusal{runtime::Refusal::Why::kStopping, "stopped", {}};
  for (Entry& entry : entries_) FinishLocked(entry, runtime::FinishReason::kAborted, "");
}

void FakeEngine::RefuseWith(std::optional<runtime::Refusal> refusal) {
  const std::lock_guard lock(mutex_);
  refusal_ = std::move(refusal);
}

bool FakeEngine::WaitForRequests(int count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience,
                           [&] { return static_cast<int>(entries_.size()) >= count; });
}

bool FakeEngine::WaitForEnd(int number) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience,
                           [&] { return entries_.at(static_cast<std::size_t>(number)).ended; });
}

runtime::Request FakeEngine::request(int number) {
  const std::lock_guard lock(mutex_);
  return entries_.at(static_cast<std::size_t>(number)).request;
}

void FakeEngine::Start(int number) {
  const std::lock_guard lock(mutex_);
  const Entry& entry = entries_.at(static_cast<std::size_t>(number));
  entry.outbox->Put(
      runtime::Started{.prompt_tokens = static_cast<int>(entry.request.prompt.size())});
}

void FakeEngine::Put(int number, const std::vector<runtime::Token>& tokens) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(static_cast<std::size_t>(number));
  for (const runtime::Token token : tokens) {
    if (entry.outbox == nullptr) return;  // a stop string ended it meanwhile
    entry.outbox->Put(runtime::NewToken{.id = token, .logprobs = {}});
    ++entry.generated;
  }
}

void FakeEngine::PutOne(int number, const runtime::NewToken& token) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(static_cast<std::size_t>(number));
  entry.outbox->Put(token);
  ++entry.generated;
}

void FakeEngine::Finish(int number, runtime::FinishReason reason, std::string error) {
  const std::lock_guard lock(mutex_);
  FinishLocked(entries_.at(static_cast<std::size_t>(number)), reason, std::move(error));
  changed_.notify_all();
}

void FakeEngine::FinishLocked(Entry& entry, runtime::FinishReason reason, std::string error) {
  if (entry.outbox == nullptr) return;
  runtime::Finished finished;
  finished.reason = reason;
  if (reason == runtime::FinishReason::kStopToken) finished.stop_token = 7;
  finished.usage = {.prompt_tokens = static_cast<int>(entry.request.prompt.size()),
                    .completion_tokens = entry.generated};
  finished.timings = {.queue = 0.001, .ttft = 0.002, .total = 0.004};
  finished.error = std::move(error);
  std::exchange(entry.outbox, nullptr)->Put(finished);
}

}  // namespace k3::server::testing
