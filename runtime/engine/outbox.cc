#include "runtime/engine/outbox.h"

#include <utility>

namespace k3::runtime {

Outbox::Batch Outbox::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

template <typename Change>
void Outbox::Add(const Change& change) {
  bool was_empty = false;
  // A copy, since after the last Put the consumer may destroy the box before wake returns.
  std::function<void()> wake;
  {
    const std::lock_guard lock(mutex_);
    was_empty = waiting_.empty();
    if (was_empty) wake = wake_;
    change(waiting_);
  }
  if (was_empty) wake();
}

void Outbox::Put(const Started& started) {
  Add([&](Batch& batch) { batch.started = started; });
}

int Outbox::Put(NewToken token) {
  int unread = 0;
  Add([&](Batch& batch) {
    batch.tokens.push_back(token.id);
    if (token.logprobs) batch.logprobs.push_back(*std::move(token.logprobs));
    unread = static_cast<int>(batch.tokens.size());
  });
  return unread;
}

void Outbox::Put(const Finished& finished) {
  Add([&](Batch& batch) { batch.finished = finished; });
}

int Outbox::num_unread() {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(waiting_.tokens.size());
}

}  // namespace k3::runtime
