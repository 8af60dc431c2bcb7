// Where pages come from, and who gives way for them.
#include <algorithm>
#include <utility>

#include "runtime/schedule/scheduler.h"

namespace k3::runtime {
namespace {

using cache::BlocksFor;
using cache::kBlockTokens;

int KeptPages(const Sequence& sequence) {
  const std::optional<Kept>& kept = std::get<Waiting>(sequence.state).kept;
  return kept ? kept->state.size() + kept->blocks.size() : 0;
}

Lease& LeaseOf(Sequence& sequence) {
  if (auto* prefilling = std::get_if<Prefilling>(&sequence.state)) return prefilling->lease;
  return std::get<Decoding>(sequence.state).lease;
}

}  // namespace

cache::Pages Scheduler::Take(int count) {
  std::optional<cache::Pages> taken = pool_.Take(count);
  K3_CHECK(taken.has_value());
  plan_.zero.insert(plan_.zero.end(), taken->ids().begin(), taken->ids().end());
  return *std::move(taken);
}

// False when the sequence must wait for those before it.
bool Scheduler::GrowTo(Sequence& sequence, int tokens) {
  const int missing = BlocksFor(tokens) - LeaseOf(sequence).blocks.size();
  if (missing <= 0) return true;
  while (missing > pool_.num_free()) {
    if (!ReclaimKept(sequence) && !PreemptPaused() && !PreemptLast(sequence)) return false;
  }
  LeaseOf(sequence).blocks.Append(Take(missing));
  return true;
}

// Room for a sequence that waits; nothing running and able to run gives way for it.
bool Scheduler::MakeRoom(int pages, const Sequence& for_whom) {
  if (pages > pool_.num_free() + ReclaimablePages(for_whom)) return false;
  while (pages > pool_.num_free()) {
    if (!ReclaimKept(for_whom)) K3_CHECK(PreemptPaused());
  }
  return true;
}

int Scheduler::ReclaimablePages(const Sequence& for_whom) const {
  int pages = 0;
  for (const Sequences& queue : waiting_) {
    for (const SequencePtr& sequence : queue) {
      if (sequence.get() != &for_whom) pages += KeptPages(*sequence);
    }
  }
  for (const SequencePtr& sequence : running_) {
    if (!sequence->paused || sequence->planned_rows > 0) continue;
    const Lease& lease = LeaseOf(*sequence);
    pages += lease.state.size() + lease.blocks.size();
  }
  return pages;
}

// The last in the order of service loses what it kept.
bool Scheduler::ReclaimKept(const Sequence& for_whom) {
  Sequence* last = nullptr;
  for (const Sequences& queue : waiting_) {
    for (const SequencePtr& sequence : queue) {
      if (sequence.get() == &for_whom || KeptPages(*sequence) == 0) continue;
      if (last == nullptr || last->Before(*sequence)) last = sequence.get();
    }
  }
  if (last == nullptr) return false;
  last->state = Waiting{};
  // With more to compute it may belong to the other class now.
  SequencePtr owned = Remove(QueueOf(*last), *last);
  Enqueue(std::move(owned));
  return true;
}

bool Scheduler::PreemptPaused() {
  const auto it = std::find_if(running_.rbegin(), running_.rend(), [](const SequencePtr& sequence) {
    return sequence->paused && sequence->planned_rows == 0;
  });
  if (it == running_.rend()) return false;
  Preempt(**it);
  return true;
}

bool Scheduler::PreemptLast(const Sequence& for_whom) {
  Sequence& last = *running_.back();
  if (last.planned_rows > 0 || &last == &for_whom) return false;
  Preempt(last);
  return true;
}

// The slot and the ragged end go at once; the state and whole blocks stay until they are needed.
void Scheduler::Preempt(Sequence& sequence) {
  const int grid = sequence.computed() / kBlockTokens * kBlockTokens;
  std::optional<Kept> kept;
  if (grid > 0) {
    Lease& lease = LeaseOf(sequence);
    lease.blocks.Shrink(grid / kBlockTokens);
    kept = Kept{std::move(lease.state), std::move(lease.blocks), grid};
  }
  SequencePtr owned = Remove(running_, sequence);
  owned->state = Waiting{std::move(kept)};
  ++owned->preemptions;
  ++num_preemptions_;
  Enqueue(std::move(owned));
}

}  // namespace k3::runtime
