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

void Outbox::Put(Token token) {
  Add([&](Batch& batch) { batch.tokens.push_back(token); });
}

void Outbox::Put(const Finished& finished) {
  Add([&](Batch& batch) { batch.finished = finished; });
}

}  // namespace k3::runtime
