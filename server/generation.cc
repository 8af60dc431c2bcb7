#include "server/generation.h"

#include <utility>

namespace k3::server {

Generation::Generation(const ServedModel& model, bool want_text, std::function<void()> wake)
    : engine_(*model.engine),
      vocabulary_(model.tokenizer.vocabulary()),
      want_text_(want_text),
      wake_(std::move(wake)) {}

std::optional<runtime::Refusal> Generation::Submit(Admitted admitted) {
  match_text_ = !admitted.stop_strings.empty();
  min_new_tokens_ = admitted.request.min_new_tokens;
  std::vector<runtime::Outbox*> outboxes;
  for (int i = 0; i < admitted.n; ++i) {
    choices_.emplace_back(vocabulary_, StopMatcher(admitted.stop_strings, admitted.include_stop),
                          wake_);
    outboxes.push_back(&choices_.back().outbox);
  }
  auto submitted = engine_.Submit(std::move(admitted.request), outboxes);
  if (auto* refusal = std::get_if<runtime::Refusal>(&submitted)) return std::move(*refusal);
  first_id_ = std::get<runtime::RequestId>(submitted);
  num_ids_ = unfinished_ = admitted.n;
  submitted_.store(true);
  // Whoever cancelled before the ids were known could not tell the engine; whoever comes later can.
  if (cancelled_.load()) Cancel();
  return std::nullopt;
}

runtime::RequestId Generation::IdOf(int index) const {
  return static_cast<runtime::RequestId>(static_cast<std::uint64_t>(first_id_) +
                                         static_cast<std::uint64_t>(index));
}

std::vector<GenerationStep> Generation::Take() {
  std::vector<GenerationStep> steps;
  for (int index = 0; index < static_cast<int>(choices_.size()); ++index) {
    if (choices_[static_cast<std::size_t>(index)].finished) continue;
    GenerationStep step = TakeChoice(index);
    if (!step.empty()) steps.push_back(std::move(step));
  }
  return steps;
}

GenerationStep Generation::TakeChoice(int index) {
  Choice& choice = choices_[static_cast<std::size_t>(index)];
  runtime::Outbox::Batch batch = choice.outbox.Take();
  GenerationStep step{.index = index, .started = batch.started};
  const bool was_hit = choice.hit.has_value();
  if (!was_hit) AddTokens(choice, batch, step);
  if (choice.hit && !was_hit && !batch.finished) {
    engine_.End(IdOf(index), runtime::FinishReason::kStopString, choice.num_tokens);
  }
  if (!batch.finished) return step;
  choice.finished = true;
  --unfinished_;
  step.finished = std::move(batch.finished);
  if (choice.hit) {
    step.stop_string = choice.hit;
    step.finished->reason = runtime::FinishReason::kStopString;
    step.finished->usage.completion_tokens = choice.num_tokens;
  } else if (want_text_) {
    step.trailing_text = choice.matcher.Flush() + choice.detokenizer.Flush();
  }
  return step;
}

void Generation::AddTokens(Choice& choice, runtime::Outbox::Batch& batch, GenerationStep& step) {
  std::size_t taken = 0;
  for (const runtime::Token token : batch.tokens) {
    ++taken;
    ++choice.num_tokens;
    if (!want_text_ && !match_text_) continue;
    std::string text = choice.detokenizer.Push(token);
    if (choice.num_tokens > min_new_tokens_) {
      StopMatcher::Piece piece = choice.matcher.Push(text);
      text = std::move(piece.text);
      choice.hit = std::move(piece.found);
    }
    if (want_text_) step.text += text;
    if (choice.hit) break;
  }
  batch.tokens.resize(taken);
  if (batch.logprobs.size() > taken) batch.logprobs.resize(taken);
  step.tokens = std::move(batch.tokens);
  step.logprobs = std::move(batch.logprobs);
}

void Generation::Cancel() {
  cancelled_.store(true);
  if (!submitted_.load()) return;
  for (int i = 0; i < num_ids_; ++i) engine_.End(IdOf(i), runtime::FinishReason::kAborted, {});
}

}  // namespace k3::server
