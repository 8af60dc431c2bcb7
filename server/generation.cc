#include "server/generation.h"

#include <utility>

namespace k3::server {

Generation::Generation(const ServedModel& model, bool want_text, std::function<void()> wake)
    : engine_(*model.engine),
      want_text_(want_text),
      detokenizer_(model.tokenizer.vocabulary(), runtime::SpecialText::kHidden),
      outbox_(std::move(wake)) {}

Result<Ok> Generation::Submit(runtime::Request request) {
  const Result<runtime::RequestId> id = engine_.Submit(std::move(request), &outbox_);
  if (!id.ok()) return id.error();
  id_ = id.value();
  submitted_.store(true);
  // Whoever cancelled before the id was known could not tell the engine; whoever comes later can.
  if (cancelled_.load()) engine_.Cancel(id_);
  return Ok{};
}

GenerationStep Generation::Take() {
  runtime::Outbox::Batch batch = outbox_.Take();
  GenerationStep step;
  step.started = batch.started;
  if (want_text_) {
    for (const runtime::Token token : batch.tokens) step.text += detokenizer_.Push(token);
    if (batch.finished) step.trailing_text = detokenizer_.Flush();
  }
  step.tokens = std::move(batch.tokens);
  step.finished = std::move(batch.finished);
  return step;
}

void Generation::Cancel() {
  cancelled_.store(true);
  if (submitted_.load()) engine_.Cancel(id_);
}

}  // namespace k3::server
