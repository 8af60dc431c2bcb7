#include "runtime/schedule/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

namespace k3::runtime {
namespace {

using cache::BlocksFor;
using cache::kBlockTokens;

Lease* LeaseOf(Sequence& sequence) {
  if (auto* prefilling = std::get_if<Prefilling>(&sequence.state)) return &prefilling->lease;
  if (auto* decoding = std::get_if<Decoding>(&sequence.state)) return &decoding->lease;
  return nullptr;
}

int& ComputedOf(Sequence& sequence) {
  if (auto* prefilling = std::get_if<Prefilling>(&sequence.state)) return prefilling->computed;
  return std::get<Decoding>(sequence.state).computed;
}

void Take(cache::PagePool& pool, int count, cache::Pages& into, Plan& plan) {
  std::optional<cache::Pages> taken = pool.Take(count);
  K3_CHECK(taken.has_value());
  plan.zero.insert(plan.zero.end(), taken->ids().begin(), taken->ids().end());
  into.Append(std::move(*taken));
}

bool Contains(const std::vector<Token>& sorted, Token token) {
  return std::binary_search(sorted.begin(), sorted.end(), token);
}

Finished Ended(const Sequence& sequence, FinishReason reason) {
  Finished finished{.reason = reason};
  finished.usage = {.prompt_tokens = sequence.num_prompt(),
                    .cached_tokens = 0,
                    .completion_tokens = sequence.num_generated()};
  finished.timings.preemptions = sequence.preemptions;
  return finished;
}

}  // namespace

std::int64_t PoolTokens(const SchedulerLimits& limits) {
  return std::int64_t{std::max(0, limits.num_pages - limits.state_pages)} * kBlockTokens;
}

Scheduler::Scheduler(const SchedulerLimits& limits)
    : limits_(limits), pool_(limits.num_pages), slots_(limits.max_num_seqs) {
  K3_CHECK(limits.max_num_seqs >= 1);
  K3_CHECK(limits.max_num_batched_tokens >= limits.max_num_seqs);
  K3_CHECK(limits.max_model_len >= 2);
  K3_CHECK(limits.max_model_len <= PoolTokens(limits));
}

Result<Ok> Scheduler::Add(RequestId id, Request request) {
  const int prompt = static_cast<int>(request.prompt.size());
  K3_CHECK(prompt >= 1);
  const int room = limits_.max_model_len - prompt;
  if (room < 1) {
    return Error{Code::kInvalidArgument,
                 "the prompt has " + std::to_string(prompt) + " tokens; at most " +
                     std::to_string(limits_.max_model_len - 1) + " fit, since max_model_len is " +
                     std::to_string(limits_.max_model_len) +
                     " and at least one token is generated"};
  }
  if (num_waiting() >= limits_.max_queued_requests) {
    return Error{Code::kResourceExhausted, "the queue is full: " + std::to_string(num_waiting()) +
                                               " requests wait (--max-queued-requests)"};
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->tokens = request.prompt;
  sequence->max_new_tokens = std::min(room, request.max_new_tokens.value_or(room));
  sequence->length_is_context = request.max_new_tokens.value_or(room + 1) > room;
  sequence->request = std::move(request);
  waiting_.push_back(std::move(sequence));
  return Ok{};
}

std::optional<Emission> Scheduler::Cancel(RequestId id) {
  K3_CHECK(!in_flight_);
  const auto same = [id](const SequencePtr& sequence) { return sequence->id == id; };
  if (const auto it = std::find_if(waiting_.begin(), waiting_.end(), same); it != waiting_.end()) {
    Emission emission{id, Ended(**it, FinishReason::kAborted)};
    waiting_.erase(it);
    return emission;
  }
  if (const auto it = std::find_if(running_.begin(), running_.end(), same); it != running_.end()) {
    Emission emission{id, Ended(**it, FinishReason::kAborted)};
    running_.erase(it);
    return emission;
  }
  return std::nullopt;
}

Plan Scheduler::Next() {
  K3_CHECK(!in_flight_);
  Plan plan;
  int budget = limits_.max_num_batched_tokens;
  PlanRunning(plan, budget, /*decoding=*/true);
  PlanRunning(plan, budget, /*decoding=*/false);
  Admit(plan, budget);
  plan_ = plan;
  in_flight_ = !plan.empty();
  return plan;
}

// Oldest first, so that the youngest is the one that gives way. A preemption shortens running_ at
// its end only, and never below the sequence at hand.
void Scheduler::PlanRunning(Plan& plan, int& budget, bool decoding) {
  for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (std::holds_alternative<Decoding>(sequence.state) != decoding) continue;
    const int computed = ComputedOf(sequence);
    const int rows = std::min(budget, sequence.num_tokens() - computed);
    if (!GrowTo(sequence, computed + rows, plan)) continue;
    AddRun(plan, sequence, rows);
    budget -= rows;
  }
}

void Scheduler::Admit(Plan& plan, int& budget) {
  while (budget > 0 && !waiting_.empty() && slots_.num_free() > 0) {
    Sequence& sequence = *waiting_.front();
    // One block more than it has tokens: a sequence that could not take a step would only be
    // preempted again.
    const int fits = std::min(sequence.num_tokens() + kBlockTokens, limits_.max_model_len);
    if (pool_.num_free() < limits_.state_pages + BlocksFor(fits)) return;
    Prefilling prefilling{.lease = {.state = {}, .blocks = {}, .slot = slots_.Take()}};
    Take(pool_, limits_.state_pages, prefilling.lease.state, plan);
    Take(pool_, BlocksFor(sequence.num_tokens()), prefilling.lease.blocks, plan);
    sequence.state = std::move(prefilling);
    if (sequence.preemptions > 0) num_recomputed_tokens_ += sequence.num_tokens();
    const int rows = std::min(budget, sequence.num_tokens());
    AddRun(plan, sequence, rows);
    budget -= rows;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

// False when the sequence itself had to give way, or must wait for a younger one's step to end.
bool Scheduler::GrowTo(Sequence& sequence, int tokens, Plan& plan) {
  for (;;) {
    Lease& lease = *LeaseOf(sequence);
    const int missing = BlocksFor(tokens) - lease.blocks.size();
    if (missing <= 0) return true;
    if (missing <= pool_.num_free()) {
      Take(pool_, missing, lease.blocks, plan);
      return true;
    }
    if (!PreemptYoungest(sequence, plan)) return false;
  }
}

bool Scheduler::PreemptYoungest(const Sequence& keep, const Plan& plan) {
  Sequence& youngest = *running_.back();
  const bool planned = std::any_of(plan.runs.begin(), plan.runs.end(),
                                   [&](const PlanRun& run) { return run.sequence == youngest.id; });
  if (planned || &youngest == &keep) return false;
  youngest.state = Waiting{};
  ++youngest.preemptions;
  ++num_preemptions_;
  waiting_.push_front(std::move(running_.back()));
  running_.pop_back();
  return true;
}

void Scheduler::AddRun(Plan& plan, Sequence& sequence, int rows) {
  const int computed = ComputedOf(sequence);
  const Lease& lease = *LeaseOf(sequence);
  PlanRun run{.sequence = sequence.id, .slot = lease.slot.id(), .position = computed};
  run.tokens = std::span(sequence.tokens)
                   .subspan(static_cast<std::size_t>(computed), static_cast<std::size_t>(rows));
  run.latent_pages = lease.blocks.ids();
  run.state_source = lease.state.ids();
  run.state_target = lease.state.ids();
  if (computed + rows == sequence.num_tokens()) {
    run.logit_rows = 1;
    run.sample =
        SampleSpec{.options = sequence.request.sampling, .position = sequence.num_tokens()};
  }
  plan.runs.push_back(run);
}

std::vector<Emission> Scheduler::Advance(const StepResult& result) {
  K3_CHECK(in_flight_);
  K3_CHECK(result.tokens.size() == plan_.runs.size());
  in_flight_ = false;
  std::vector<Emission> out;
  for (std::size_t i = 0; i < plan_.runs.size(); ++i) {
    const PlanRun& run = plan_.runs[i];
    const auto it =
        std::find_if(running_.begin(), running_.end(),
                     [&](const SequencePtr& sequence) { return sequence->id == run.sequence; });
    K3_CHECK(it != running_.end());
    AdvanceRun(**it, run, result.tokens[i], out);
  }
  plan_ = {};
  return out;
}

void Scheduler::AdvanceRun(Sequence& sequence, const PlanRun& run, std::optional<Token> token,
                           std::vector<Emission>& out) {
  if (!sequence.started) {
    sequence.started = true;
    out.push_back(
        {sequence.id, Started{.prompt_tokens = sequence.num_prompt(), .cached_tokens = 0}});
  }
  ComputedOf(sequence) += static_cast<int>(run.tokens.size());
  K3_CHECK(token.has_value() == run.sample.has_value());
  if (!token) return;
  if (std::optional<Finished> finished = Accept(sequence, *token, out)) {
    const RequestId id = sequence.id;
    out.push_back({id, *std::move(finished)});
    Release(id);
    return;
  }
  if (auto* prefilling = std::get_if<Prefilling>(&sequence.state)) {
    sequence.state = Decoding{std::move(prefilling->lease), prefilling->computed};
  }
}

// Takes the token in; says how the sequence ended, if it did.
std::optional<Finished> Scheduler::Accept(Sequence& sequence, Token token,
                                          std::vector<Emission>& out) {
  if (token == kNoToken) {
    Finished finished = Ended(sequence, FinishReason::kError);
    finished.error =
        "the model's logits were not finite at position " + std::to_string(sequence.num_tokens());
    return finished;
  }
  const bool eos = Contains(sequence.request.eos_ids, token);
  if (eos || Contains(sequence.request.stop_ids, token)) {
    Finished finished = Ended(sequence, eos ? FinishReason::kStopEos : FinishReason::kStopToken);
    finished.stop_token = token;
    return finished;
  }
  sequence.tokens.push_back(token);
  out.push_back({sequence.id, token});
  if (sequence.num_generated() < sequence.max_new_tokens) return std::nullopt;
  return Ended(sequence, sequence.length_is_context ? FinishReason::kLengthContext
                                                    : FinishReason::kLengthMaxTokens);
}

void Scheduler::Release(RequestId id) {
  std::erase_if(running_, [id](const SequencePtr& sequence) { return sequence->id == id; });
}

std::int64_t Scheduler::num_waiting_tokens() const {
  std::int64_t tokens = 0;
  for (const SequencePtr& sequence : waiting_) tokens += sequence->num_tokens();
  return tokens;
}

void Scheduler::Audit() const {
  pool_.Audit();
  int held = 0;
  for (const SequencePtr& sequence : running_) {
    const Lease* lease = LeaseOf(*sequence);
    K3_CHECK(lease != nullptr);
    K3_CHECK(lease->state.size() == limits_.state_pages);
    K3_CHECK(lease->blocks.size() >= BlocksFor(ComputedOf(*sequence)));
    held += lease->state.size() + lease->blocks.size();
  }
  K3_CHECK(held + pool_.num_free() == pool_.size());
  K3_CHECK(num_running() + slots_.num_free() == limits_.max_num_seqs);
  for (const SequencePtr& sequence : waiting_) {
    K3_CHECK(std::holds_alternative<Waiting>(sequence->state));
  }
}

}  // namespace k3::runtime
