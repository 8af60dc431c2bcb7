// Decides what runs next. Pure: no clock, thread, device or log. First form: continuous batching,
// decode rows first, then prefill in chunks, first come first served; a bounded queue.
//   1. Next() looks and takes ids; Advance() applies what came of it. They alternate.
//   2. Pages and slots are held by leases only; a finished, cancelled or preempted sequence's lease
//      dies at once.
//   3. When pages run out the youngest running sequence is preempted: its pages go, it waits at the
//      head of the queue with what it generated, and is computed again bit for bit. So the oldest
//      always progresses, and a request that fits the pool alone is always finished.
//   4. Add() refuses at the door what could never run.
#pragma once
#include <deque>
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
};

// Tokens one sequence may have if it had the whole pool to itself.
std::int64_t PoolTokens(const SchedulerLimits& limits);

class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  // kResourceExhausted: the queue is full. kInvalidArgument: the prompt leaves no room for a token.
  Result<Ok> Add(RequestId id, Request request);

  // Frees all the request held, at once; empty when it is not here (any more).
  std::optional<Emission> Cancel(RequestId id);

  Plan Next();
  std::vector<Emission> Advance(const StepResult& result);

  bool idle() const { return running_.empty() && waiting_.empty(); }
  int num_running() const { return static_cast<int>(running_.size()); }
  int num_waiting() const { return static_cast<int>(waiting_.size()); }
  std::int64_t num_waiting_tokens() const;
  int num_free_pages() const { return pool_.num_free(); }
  int num_preemptions() const { return num_preemptions_; }
  std::int64_t num_recomputed_tokens() const { return num_recomputed_tokens_; }

  // Pool, slots and leases add up; aborts when not. For tests, after every step.
  void Audit() const;

 private:
  using SequencePtr = std::unique_ptr<Sequence>;

  void PlanRunning(Plan& plan, int& budget, bool decoding);
  void Admit(Plan& plan, int& budget);
  bool GrowTo(Sequence& sequence, int tokens, Plan& plan);
  bool PreemptYoungest(const Sequence& keep, const Plan& plan);
  void AddRun(Plan& plan, Sequence& sequence, int rows);
  std::optional<Finished> Accept(Sequence& sequence, Token token, std::vector<Emission>& out);
  void AdvanceRun(Sequence& sequence, const PlanRun& run, std::optional<Token> token,
                  std::vector<Emission>& out);
  void Release(RequestId id);

  SchedulerLimits limits_;
  cache::PagePool pool_;
  SlotPool slots_;
  std::deque<SequencePtr> waiting_;   // oldest first
  std::vector<SequencePtr> running_;  // in order of admission
  Plan plan_;                         // the one in flight, between Next and Advance
  bool in_flight_ = false;
  int num_preemptions_ = 0;
  std::int64_t num_recomputed_tokens_ = 0;
};

}  // namespace k3::runtime
