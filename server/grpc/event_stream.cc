#include "server/grpc/event_stream.h"

#include <utility>

#include "server/grpc/wire.h"

namespace k3::server {

namespace pb = k3serve::v1;

EventStream::EventStream(std::string request_id, const pb::OutputOptions& output)
    : request_id_(std::move(request_id)),
      want_text_(!output.has_want_text() || output.want_text()),
      want_token_ids_(output.want_token_ids()),
      include_prompt_token_ids_(output.include_prompt_token_ids()) {}

void EventStream::Admitted(const runtime::Request& request) {
  sampling_ = request.sampling;
  if (include_prompt_token_ids_) prompt_ = request.prompt;
}

pb::GenerateEvent& EventStream::Append() {
  pb::GenerateEvent& event = events_.emplace_back();
  event.set_request_id(request_id_);
  event.set_seq(next_seq_++);
  return event;
}

void EventStream::AddDelta(GenerationStep& step) {
  untold_tokens_ += static_cast<std::uint32_t>(step.tokens.size());
  const bool ids = want_token_ids_ && !step.tokens.empty();
  const bool last = step.finished && untold_tokens_ > 0;
  if (step.text.empty() && !ids && !last) return;
  pb::Delta& delta = *Append().mutable_delta();
  delta.set_text(std::move(step.text));
  delta.set_num_tokens(std::exchange(untold_tokens_, 0));
  if (ids) delta.mutable_token_ids()->Add(step.tokens.begin(), step.tokens.end());
}

void EventStream::Add(GenerationStep step) {
  if (step.started) {
    pb::Started& started = *Append().mutable_started();
    Fill(*step.started, sampling_, started);
    started.mutable_prompt_token_ids()->Add(prompt_.begin(), prompt_.end());
  }
  AddDelta(step);
  // A failed generation ends in a status, not in an event.
  if (!step.finished || step.finished->reason == runtime::FinishReason::kError) return;
  pb::Finished& finished = *Append().mutable_finished();
  Fill(*step.finished, finished);
  finished.set_text(std::move(step.trailing_text));
  Fill(*step.finished, *Append().mutable_completed());
}

pb::GenerateEvent EventStream::Pop() {
  pb::GenerateEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

}  // namespace k3::server
