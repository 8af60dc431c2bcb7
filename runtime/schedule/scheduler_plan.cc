// What the next step computes.
#include <algorithm>
#include <utility>

#include "runtime/schedule/scheduler.h"

namespace k3::runtime {

using cache::BlocksFor;
using cache::kBlockTokens;

const Plan& Scheduler::Next(int prefill_rows) {
  K3_CHECK(!in_flight_);
  plan_.zero.clear();
  plan_.runs.clear();
  plan_.exports.clear();
  planned_.clear();
  int rows = limits_.max_num_batched_tokens;
  PlanDecodes(rows);
  PlanPrefills(std::min(rows, std::max(prefill_rows, 1)));
  in_flight_ = !plan_.empty();
  return plan_;
}

// First in the order of service first, so that the last is the one that gives way. A preemption
// shortens running_ behind the sequence at hand, or takes a paused one from before it.
void Scheduler::PlanDecodes(int& rows) {
  std::vector<Sequence*> ready;
  ready.reserve(running_.size());
  for (const SequencePtr& sequence : running_) {
    if (sequence->decoding() && !sequence->paused) ready.push_back(sequence.get());
  }
  for (Sequence* sequence : ready) {
    if (!sequence->decoding()) continue;  // it gave way
    if (!GrowTo(*sequence, sequence->num_tokens())) continue;
    rows -= sequence->left();
    AddRows(*sequence, sequence->left());
  }
}

void Scheduler::PlanPrefills(int rows) {
  if (rows <= 0) return;
  if (!HasWork(PromptClass::kShort) || !HasWork(PromptClass::kLong)) {
    rows -= PlanClass(PromptClass::kShort, rows);
    PlanClass(PromptClass::kLong, rows);
    return;
  }
  odd_step_ = !odd_step_;
  const int share = (rows + (odd_step_ ? 1 : 0)) / 2;  // of the long ones
  const int used = PlanClass(PromptClass::kShort, rows - share);
  const int used_long = PlanClass(PromptClass::kLong, rows - used);
  PlanClass(PromptClass::kShort, rows - used - used_long);
}

bool Scheduler::HasWork(PromptClass which) const {
  const auto wants = [](const SequencePtr& sequence) { return !sequence->paused; };
  const Sequences& queue = waiting_[static_cast<std::size_t>(which)];
  return std::any_of(queue.begin(), queue.end(), wants) ||
         std::any_of(running_.begin(), running_.end(), [&](const SequencePtr& sequence) {
           return sequence->prefilling() && sequence->prompt_class == which && wants(sequence);
         });
}

int Scheduler::PlanClass(PromptClass which, int rows) {
  const int granted = rows;
  for (const SequencePtr& sequence : running_) {
    if (rows == 0) break;
    if (!sequence->prefilling() || sequence->paused || sequence->prompt_class != which) continue;
    const int some = std::min(rows, sequence->left());
    if (some > 0) AddRows(*sequence, some);
    rows -= some;
  }
  while (rows > 0) {
    Sequence* admitted = Admit(which);
    if (admitted == nullptr) break;
    const int some = std::min(rows, admitted->left());
    AddRows(*admitted, some);
    rows -= some;
  }
  return granted - rows;
}

Sequence* Scheduler::Admit(PromptClass which) {
  Sequences& queue = waiting_[static_cast<std::size_t>(which)];
  const auto head = std::find_if(queue.begin(), queue.end(),
                                 [](const SequencePtr& sequence) { return !sequence->paused; });
  if (head == queue.end()) {
    if (which == PromptClass::kLong) passes_ = 0;
    return nullptr;
  }
  const Sequence& next = **head;
  if (!MayAdmit(next)) return nullptr;
  SequencePtr sequence = Remove(queue, next);
  Kept kept = std::move(std::get<Waiting>(sequence->state).kept).value_or(Kept{});
  Prefilling prefilling{.lease = {.state = std::move(kept.state),
                                  .blocks = std::move(kept.blocks),
                                  .slot = slots_.Take()},
                        .computed = kept.computed};
  Lease& lease = prefilling.lease;
  if (kept.computed == 0) lease.state = Take(limits_.state_pages);
  lease.blocks.Append(Take(BlocksFor(sequence->num_tokens()) - lease.blocks.size()));
  if (sequence->preemptions > 0) {
    const int again = sequence->num_tokens() - kept.computed;
    sequence->recomputed_tokens += again;
    num_recomputed_tokens_ += again;
  }
  sequence->state = std::move(prefilling);
  Sequence* admitted = sequence.get();
  Insert(running_, std::move(sequence));
  return admitted;
}

// One block more than it has tokens: a sequence that could not take a step would only be preempted
// again.
int Scheduler::PagesToAdmit(const Sequence& sequence) const {
  const int fits = std::min(sequence.num_tokens() + kBlockTokens, limits_.max_model_len);
  const int kept = sequence.computed() / kBlockTokens;
  return (kept > 0 ? 0 : limits_.state_pages) + BlocksFor(fits) - kept;
}

bool Scheduler::MayAdmit(const Sequence& sequence) {
  if (slots_.num_free() == 0 && !PreemptPaused()) return false;
  if (sequence.prompt_class == PromptClass::kShort) {
    if (passes_ >= kMaxPasses || !MakeRoom(PagesToAdmit(sequence), sequence)) return false;
    if (passes_ > 0) ++passes_;
    return true;
  }
  const bool fits = MakeRoom(PagesToAdmit(sequence), sequence);
  passes_ = fits ? 0 : std::max(passes_, 1);
  return fits;
}

// A sequence has one run in a plan; more rows make it longer.
void Scheduler::AddRows(Sequence& sequence, int rows) {
  if (sequence.planned_rows == 0) {
    const Lease& lease = sequence.decoding() ? std::get<Decoding>(sequence.state).lease
                                             : std::get<Prefilling>(sequence.state).lease;
    sequence.run = static_cast<int>(plan_.runs.size());
    plan_.runs.push_back({.sequence = sequence.id,
                          .slot = lease.slot.id(),
                          .position = sequence.computed(),
                          .latent_pages = lease.blocks.ids(),
                          .state_source = lease.state.ids(),
                          .state_target = lease.state.ids()});
    planned_.push_back(&sequence);
  }
  sequence.planned_rows += rows;
  PlanRun& run = plan_.runs[static_cast<std::size_t>(sequence.run)];
  run.tokens = std::span(sequence.tokens)
                   .subspan(static_cast<std::size_t>(run.position),
                            static_cast<std::size_t>(sequence.planned_rows));
  if (sequence.left() > 0) return;
  run.logit_rows = 1;
  run.sample =
      sequence.sampler.Spec(sequence.request, sequence.num_generated(), sequence.num_tokens());
}

}  // namespace k3::runtime
