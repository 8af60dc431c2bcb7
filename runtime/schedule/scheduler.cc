#include "runtime/schedule/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

namespace k3::runtime {
namespace {

using cache::BlocksFor;
using cache::kBlockTokens;

bool Contains(const std::vector<Token>& sorted, Token token) {
  return std::binary_search(sorted.begin(), sorted.end(), token);
}

Finished Ended(const Sequence& sequence, FinishReason reason) {
  Finished finished{.reason = reason};
  finished.usage = {.prompt_tokens = sequence.num_prompt(),
                    .cached_tokens = 0,
                    .completion_tokens = sequence.num_generated()};
  finished.timings.preemptions = sequence.preemptions;
  finished.timings.recomputed_tokens = sequence.recomputed_tokens;
  return finished;
}

}  // namespace

std::int64_t PoolTokens(const SchedulerLimits& limits) {
  return std::int64_t{std::max(0, limits.num_pages - limits.state_pages)} * kBlockTokens;
}

int MaxChoices(const SchedulerLimits& limits, int prompt_tokens) {
  return std::min(limits.max_num_seqs,
                  limits.num_pages / (limits.state_pages + BlocksFor(prompt_tokens + 1)));
}

Scheduler::Scheduler(const SchedulerLimits& limits)
    : limits_(limits), pool_(limits.num_pages), slots_(limits.max_num_seqs) {
  K3_CHECK(limits.max_num_seqs >= 1);
  K3_CHECK(limits.max_num_batched_tokens >= limits.max_num_seqs);
  K3_CHECK(limits.max_model_len >= 2);
  K3_CHECK(limits.max_model_len <= PoolTokens(limits));
}

void Scheduler::Insert(Sequences& sequences, SequencePtr sequence) {
  const auto after =
      std::find_if(sequences.rbegin(), sequences.rend(),
                   [&](const SequencePtr& other) { return other->Before(*sequence); });
  sequences.insert(after.base(), std::move(sequence));
}

void Scheduler::Enqueue(SequencePtr sequence) {
  sequence->prompt_class = ClassOf(*sequence);
  Sequences& queue = QueueOf(*sequence);
  Insert(queue, std::move(sequence));
}

Scheduler::SequencePtr Scheduler::Remove(Sequences& sequences, const Sequence& sequence) {
  const auto it = std::find_if(sequences.begin(), sequences.end(),
                               [&](const SequencePtr& other) { return other.get() == &sequence; });
  K3_CHECK(it != sequences.end());
  SequencePtr owned = std::move(*it);
  sequences.erase(it);
  return owned;
}

Scheduler::SequencePtr Scheduler::RemoveFromAnywhere(RequestId id) {
  for (Sequences* sequences : {&waiting_[0], &waiting_[1], &running_}) {
    for (const SequencePtr& sequence : *sequences) {
      if (sequence->id == id) return Remove(*sequences, *sequence);
    }
  }
  return nullptr;
}

PromptClass Scheduler::ClassOf(const Sequence& sequence) const {
  return sequence.num_tokens() - sequence.computed() > limits_.long_prefill_tokens
             ? PromptClass::kLong
             : PromptClass::kShort;
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
  sequence->arrival = arrivals_++;
  sequence->tokens = request.prompt;
  sequence->max_new_tokens = std::min(room, request.max_new_tokens.value_or(room));
  sequence->length_is_context = request.max_new_tokens.value_or(room + 1) > room;
  sequence->sampler = SamplerState(request, limits_.vocab_size);
  sequence->request = std::move(request);
  Enqueue(std::move(sequence));
  return Ok{};
}

std::optional<Emission> Scheduler::End(RequestId id, FinishReason reason,
                                       std::optional<int> completion_tokens) {
  K3_CHECK(!in_flight_);
  const SequencePtr sequence = RemoveFromAnywhere(id);
  if (sequence == nullptr) return std::nullopt;
  if (sequence->waiting() && sequence->prompt_class == PromptClass::kLong) passes_ = 0;
  Finished finished = Ended(*sequence, reason);
  if (completion_tokens) {
    K3_CHECK(*completion_tokens <= sequence->num_generated());
    finished.usage.completion_tokens = *completion_tokens;
  }
  return Emission{id, std::move(finished)};
}

std::vector<Emission> Scheduler::Expire(TimePoint now) {
  std::vector<RequestId> late;
  for (const Sequences* sequences : {&waiting_[0], &waiting_[1], &running_}) {
    for (const SequencePtr& sequence : *sequences) {
      const Request& request = sequence->request;
      const bool in_time = !request.deadline || now < *request.deadline;
      const bool queued_in_time =
          sequence->started || !request.queue_deadline || now < *request.queue_deadline;
      if (!in_time || !queued_in_time) late.push_back(sequence->id);
    }
  }
  std::vector<Emission> out;
  out.reserve(late.size());
  for (const RequestId id : late) out.push_back(*End(id, FinishReason::kDeadline));
  return out;
}

void Scheduler::SetPaused(RequestId id, bool paused) {
  K3_CHECK(!in_flight_);
  for (const Sequences* sequences : {&waiting_[0], &waiting_[1], &running_}) {
    for (const SequencePtr& sequence : *sequences) {
      if (sequence->id == id) sequence->paused = paused;
    }
  }
}

std::vector<Emission> Scheduler::Advance(const StepResult& result) {
  K3_CHECK(in_flight_);
  K3_CHECK(result.tokens.size() == plan_.runs.size());
  in_flight_ = false;
  std::vector<Emission> out;
  out.reserve(planned_.size() + 2);
  for (std::size_t i = 0; i < plan_.runs.size(); ++i) {
    AdvanceRun(*planned_[i], plan_.runs[i], result.tokens[i], out);
  }
  return out;
}

void Scheduler::AdvanceRun(Sequence& sequence, const PlanRun& run,
                           const std::optional<NewToken>& token, std::vector<Emission>& out) {
  if (!sequence.started) {
    sequence.started = true;
    out.push_back(
        {sequence.id, Started{.prompt_tokens = sequence.num_prompt(), .cached_tokens = 0}});
  }
  sequence.planned_rows = 0;
  const int computed = sequence.computed() + static_cast<int>(run.tokens.size());
  if (auto* prefilling = std::get_if<Prefilling>(&sequence.state)) {
    prefilling->computed = computed;
    if (token) sequence.state = Decoding{std::move(prefilling->lease), computed};
  } else {
    std::get<Decoding>(sequence.state).computed = computed;
  }
  K3_CHECK(token.has_value() == run.sample.has_value());
  if (!token) return;
  if (std::optional<Finished> finished = Accept(sequence, *token, out)) {
    out.push_back({sequence.id, *std::move(finished)});
    Remove(running_, sequence);
  }
}

// Takes the token in; says how the sequence ended, if it did.
std::optional<Finished> Scheduler::Accept(Sequence& sequence, const NewToken& token,
                                          std::vector<Emission>& out) {
  if (token.id == kDamagedToken) {
    Finished finished = Ended(sequence, FinishReason::kError);
    finished.error =
        "the model's logits were not finite at position " + std::to_string(sequence.num_tokens());
    return finished;
  }
  const bool eos = Contains(sequence.request.eos_ids, token.id);
  if (eos || Contains(sequence.request.stop_ids, token.id)) {
    Finished finished = Ended(sequence, eos ? FinishReason::kStopEos : FinishReason::kStopToken);
    finished.stop_token = token.id;
    return finished;
  }
  sequence.tokens.push_back(token.id);
  sequence.sampler.Accept(token.id);
  out.push_back({sequence.id, token});
  if (sequence.num_generated() < sequence.max_new_tokens) return std::nullopt;
  return Ended(sequence, sequence.length_is_context ? FinishReason::kLengthContext
                                                    : FinishReason::kLengthMaxTokens);
}

bool Scheduler::decoding() const {
  return std::any_of(running_.begin(), running_.end(), [](const SequencePtr& sequence) {
    return sequence->decoding() && !sequence->paused;
  });
}

int Scheduler::num_paused() const {
  int paused = 0;
  for (const Sequences* sequences : {&waiting_[0], &waiting_[1], &running_}) {
    for (const SequencePtr& sequence : *sequences) paused += sequence->paused ? 1 : 0;
  }
  return paused;
}

std::int64_t Scheduler::num_waiting_tokens() const {
  std::int64_t tokens = 0;
  for (const Sequences& queue : waiting_) {
    for (const SequencePtr& sequence : queue) tokens += sequence->left();
  }
  return tokens;
}

void Scheduler::Audit() const {
  pool_.Audit();
  int held = 0;
  const auto ordered = [](const SequencePtr& a, const SequencePtr& b) { return a->Before(*b); };
  for (const SequencePtr& sequence : running_) {
    K3_CHECK(!sequence->waiting());
    const Lease& lease = sequence->decoding() ? std::get<Decoding>(sequence->state).lease
                                              : std::get<Prefilling>(sequence->state).lease;
    K3_CHECK(lease.state.size() == limits_.state_pages);
    K3_CHECK(lease.blocks.size() >= BlocksFor(sequence->computed()));
    held += lease.state.size() + lease.blocks.size();
  }
  for (const Sequences& queue : waiting_) {
    K3_CHECK(std::is_sorted(queue.begin(), queue.end(), ordered));
    for (const SequencePtr& sequence : queue) {
      K3_CHECK(sequence->waiting());
      const std::optional<Kept>& kept = std::get<Waiting>(sequence->state).kept;
      if (!kept) continue;
      K3_CHECK(kept->computed > 0);
      K3_CHECK(kept->computed == kept->blocks.size() * kBlockTokens);
      K3_CHECK(kept->state.size() == limits_.state_pages);
      held += kept->state.size() + kept->blocks.size();
    }
  }
  K3_CHECK(std::is_sorted(running_.begin(), running_.end(), ordered));
  K3_CHECK(held + pool_.num_free() == pool_.size());
  K3_CHECK(num_running() + slots_.num_free() == limits_.max_num_seqs);
}

}  // namespace k3::runtime
