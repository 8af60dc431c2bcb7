// Decides what runs next. Pure: no clock, thread, device or log; times are handed in.
//   1. Next() looks and takes ids; Advance() applies what came of it. They alternate. The rest may
//      come between an Advance and a Next.
//   2. Pages and slots are held by leases only. A finished, cancelled or late sequence's lease dies
//      at once; a preempted one keeps what stands on the grid until someone needs the pages.
//   3. Order of service: priority, then age. When pages run out, paused sequences give way first,
//      then the last in that order; it is computed again bit for bit. So the first always
//      progresses, and a request that fits the pool alone is always finished.
//   4. Decode rows first, then prefill. Add() refuses at the door what could never run.
//   5. Prompts with more than `long_prefill_tokens` to compute are a class of their own: while
//      others want rows, it gets half of the prefill budget. One after another of a class is
//      computed, so long ones take slots no faster than they are. A long prompt that waits for
//      pages is passed by at most kMaxPasses others.
//   6. A paused sequence takes no step and holds up nobody.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "cache/page_pool.h"
#include "kernels/base/result.h"
#include "runtime/schedule/plan.h"
#include "runtime/schedule/sequence.h"

namespace k3::runtime {

struct SchedulerLimits {
  int max_num_seqs = 0;
  int max_num_batched_tokens = 0;  // >= max_num_seqs, so that every decode row fits a step
  int max_queued_requests = 0;
  int max_model_len = 0;  // prompt + generated
  int state_pages = 0;    // of one live KDA state
  int num_pages = 0;      // the pool's size
  int vocab_size = 0;
  int long_prefill_tokens = 8192;
};

// Tokens one sequence may have if it had the whole pool to itself.
std::int64_t PoolTokens(const SchedulerLimits& limits);

// How many choices of one request can live at once, each with a prompt of that length.
int MaxChoices(const SchedulerLimits& limits, int prompt_tokens);

class Scheduler {
 public:
  static constexpr int kMaxPasses = 64;

  explicit Scheduler(const SchedulerLimits& limits);

  // kResourceExhausted: the queue is full. kInvalidArgument: the prompt leaves no room for a token.
  Result<Ok> Add(RequestId id, Request request);

  // Frees all the request held, at once; empty when it is not here (any more). `completion_tokens`:
  // how many of the generated tokens count, where fewer do than were computed.
  std::optional<Emission> End(RequestId id, FinishReason reason,
                              std::optional<int> completion_tokens = std::nullopt);

  // Ends what is late.
  std::vector<Emission> Expire(TimePoint now);

  // Its reader is too far behind, or no longer. Ids that are not here are passed over.
  void SetPaused(RequestId id, bool paused);

  // A step with at most `prefill_rows` rows of prefill (at least one is granted), good until
  // Advance.
  const Plan& Next(int prefill_rows);
  std::vector<Emission> Advance(const StepResult& result);

  bool idle() const { return running_.empty() && num_waiting() == 0; }
  bool decoding() const;  // some sequence gets a token from each step
  int num_running() const { return static_cast<int>(running_.size()); }
  int num_waiting() const { return static_cast<int>(waiting_[0].size() + waiting_[1].size()); }
  int num_paused() const;
  std::int64_t num_waiting_tokens() const;                 // to be computed
  int num_free_pages() const { return pool_.num_free(); }  // what is kept counts as used
  int num_preemptions() const { return num_preemptions_; }
  std::int64_t num_recomputed_tokens() const { return num_recomputed_tokens_; }

  // Pool, slots and leases add up; aborts when not. For tests, after every step.
  void Audit() const;

 private:
  using SequencePtr = std::unique_ptr<Sequence>;
  using Sequences = std::vector<SequencePtr>;  // in the order of service

  static void Insert(Sequences& sequences, SequencePtr sequence);
  void Enqueue(SequencePtr sequence);
  static SequencePtr Remove(Sequences& sequences, const Sequence& sequence);
  SequencePtr RemoveFromAnywhere(RequestId id);
  Sequences& QueueOf(const Sequence& sequence) {
    return waiting_[static_cast<std::size_t>(sequence.prompt_class)];
  }
  PromptClass ClassOf(const Sequence& sequence) const;

  // scheduler_plan.cc
  void PlanDecodes(int& rows);
  void PlanPrefills(int rows);
  int PlanClass(PromptClass which, int rows);  // how many rows it took
  bool HasWork(PromptClass which) const;
  Sequence* Admit(PromptClass which);
  bool MayAdmit(const Sequence& sequence);
  int PagesToAdmit(const Sequence& sequence) const;
  void AddRows(Sequence& sequence, int rows);

  // scheduler_room.cc
  cache::Pages Take(int count);
  bool GrowTo(Sequence& sequence, int tokens);
  bool MakeRoom(int pages, const Sequence& for_whom);
  int ReclaimablePages(const Sequence& for_whom) const;
  bool ReclaimKept(const Sequence& for_whom);
  bool PreemptPaused();
  bool PreemptLast(const Sequence& for_whom);
  void Preempt(Sequence& sequence);

  void AdvanceRun(Sequence& sequence, const PlanRun& run, const std::optional<NewToken>& token,
                  std::vector<Emission>& out);
  std::optional<Finished> Accept(Sequence& sequence, const NewToken& token,
                                 std::vector<Emission>& out);

  SchedulerLimits limits_;
  cache::PagePool pool_;
  SlotPool slots_;
  std::array<Sequences, kNumPromptClasses> waiting_;
  Sequences running_;
  Plan plan_;                       // the one in flight, between Next and Advance
  std::vector<Sequence*> planned_;  // of plan_.runs
  bool in_flight_ = false;
  bool odd_step_ = false;  // who gets the row that cannot be halved
  int passes_ = 0;         // of the long prompt that waits for pages
  std::uint64_t arrivals_ = 0;
  int num_preemptions_ = 0;
  std::int64_t num_recomputed_tokens_ = 0;
};

}  // namespace k3::runtime
