#include "server/grpc/event_stream.h"

#include <utility>

#include "server/grpc/wire.h"

namespace k3::server {

namespace pb = k3serve::v1;

EventStream::EventStream(const runtime::Vocabulary& vocabulary, std::string request_id,
                         const pb::OutputOptions& output)
    : vocabulary_(vocabulary),
      request_id_(std::move(request_id)),
      want_text_(!output.has_want_text() || output.want_text()),
      want_token_ids_(output.want_token_ids()),
      include_prompt_token_ids_(output.include_prompt_token_ids()) {}

void EventStream::Admitted(const server::Admitted& admitted) {
  admitted_ = admitted;
  if (!include_prompt_token_ids_) admitted_.request.prompt = {};
  unfinished_ = admitted.n;
}

pb::GenerateEvent& EventStream::Append() {
  pb::GenerateEvent& event = events_.emplace_back();
  event.set_request_id(request_id_);
  event.set_seq(next_seq_++);
  return event;
}

void EventStream::AddStarted(const runtime::Started& started) {
  if (std::exchange(started_, true)) return;  // another choice told it
  Fill(started, admitted_, *Append().mutable_started());
}

void EventStream::AddDelta(GenerationStep& step) {
  Untold& untold = untold_[step.index];
  untold.tokens += static_cast<std::uint32_t>(step.tokens.size());
  AddLogprobs(vocabulary_, step.tokens, step.logprobs, untold.logprobs);
  const bool ids = want_token_ids_ && !step.tokens.empty();
  const bool last = step.finished && untold.tokens > 0;
  if (step.text.empty() && !ids && !last) return;
  pb::Delta& delta = *Append().mutable_delta();
  delta.set_index(static_cast<std::uint32_t>(step.index));
  delta.set_text(std::move(step.text));
  delta.set_num_tokens(std::exchange(untold.tokens, 0));
  delta.mutable_logprobs()->Swap(&untold.logprobs);
  if (ids) delta.mutable_token_ids()->Add(step.tokens.begin(), step.tokens.end());
}

void EventStream::AddFinished(GenerationStep& step) {
  sum_.Add(*step.finished);
  pb::Finished& finished = *Append().mutable_finished();
  finished.set_index(static_cast<std::uint32_t>(step.index));
  Fill(*step.finished, step.stop_string, finished);
  finished.set_text(std::move(step.trailing_text));
}

void EventStream::Add(GenerationStep step) {
  if (step.started) AddStarted(*step.started);
  AddDelta(step);
  if (!step.finished) return;
  --unfinished_;
  // What ends in a status gets no event of its end.
  failed_ = failed_ || EndsInStatus(step.finished->reason);
  if (failed_) return;
  AddFinished(step);
  if (unfinished_ > 0) return;
  pb::Completed& completed = *Append().mutable_completed();
  sum_.Fill(*completed.mutable_usage(), *completed.mutable_timings());
}

pb::GenerateEvent EventStream::Pop() {
  pb::GenerateEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

}  // namespace k3::server
