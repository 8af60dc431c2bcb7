#include "server/grpc/result_builder.h"

#include <utility>

#include "server/grpc/wire.h"

namespace k3::server {

namespace pb = k3serve::v1;

ResultBuilder::ResultBuilder(const runtime::Vocabulary& vocabulary, const std::string& request_id,
                             const pb::OutputOptions& output)
    : vocabulary_(vocabulary),
      want_text_(!output.has_want_text() || output.want_text()),
      want_token_ids_(output.want_token_ids()),
      include_prompt_token_ids_(output.include_prompt_token_ids()) {
  result_.set_request_id(request_id);
}

void ResultBuilder::Admitted(const server::Admitted& admitted) {
  admitted_ = admitted;
  if (!include_prompt_token_ids_) admitted_.request.prompt = {};
  for (int i = 0; i < admitted.n; ++i) {
    result_.add_choices()->set_index(static_cast<std::uint32_t>(i));
  }
}

void ResultBuilder::Add(GenerationStep step) {
  pb::Choice& choice = *result_.mutable_choices(step.index);
  if (step.started) Fill(*step.started, admitted_, *result_.mutable_started());
  choice.mutable_text()->append(step.text);
  if (want_token_ids_) choice.mutable_token_ids()->Add(step.tokens.begin(), step.tokens.end());
  AddLogprobs(vocabulary_, step.tokens, step.logprobs, *choice.mutable_logprobs());
  if (!step.finished) return;
  sum_.Add(*step.finished);
  choice.mutable_text()->append(step.trailing_text);
  pb::Finished end;
  Fill(*step.finished, step.stop_string, end);
  choice.set_reason(end.reason());
  if (end.has_token()) choice.set_token(end.token());
  if (end.has_stop_string()) choice.set_stop_string(end.stop_string());
}

pb::GenerateResult ResultBuilder::Take() {
  sum_.Fill(*result_.mutable_usage(), *result_.mutable_timings());
  return std::move(result_);
}

}  // namespace k3::server
