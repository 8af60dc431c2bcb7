#include "server/grpc/wire.h"

#include <algorithm>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include "proto/k3serve/v1/inference.pb.h"

namespace k3::server {
namespace {

namespace pb = k3serve::v1;
using google::protobuf::FieldDescriptor;
using google::protobuf::UnknownField;

std::uint32_t Unsigned(std::int64_t value) {
  return static_cast<std::uint32_t>(value);
}

// The first string of the message or of one inside it that is not UTF-8.
std::optional<ApiError> FindBrokenString(const std::string& bytes,
                                         const google::protobuf::Descriptor& type) {
  google::protobuf::UnknownFieldSet fields;
  if (!fields.ParseFromString(bytes)) return std::nullopt;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    const FieldDescriptor* known = type.FindFieldByNumber(field.number());
    if (known == nullptr || field.type() != UnknownField::TYPE_LENGTH_DELIMITED) continue;
    std::optional<ApiError> broken;
    if (known->type() == FieldDescriptor::TYPE_STRING) {
      broken = CheckUtf8(known->name().c_str(), field.length_delimited());
    } else if (known->type() == FieldDescriptor::TYPE_MESSAGE) {
      broken = FindBrokenString(field.length_delimited(), *known->message_type());
    }
    if (broken) return broken;
  }
  return std::nullopt;
}

pb::FinishReason ToWire(runtime::FinishReason reason) {
  switch (reason) {
    case runtime::FinishReason::kStopEos:
      return pb::FINISH_REASON_STOP_EOS;
    case runtime::FinishReason::kStopToken:
      return pb::FINISH_REASON_STOP_TOKEN;
    case runtime::FinishReason::kStopString:
      return pb::FINISH_REASON_STOP_STRING;
    case runtime::FinishReason::kLengthMaxTokens:
      return pb::FINISH_REASON_LENGTH_MAX_TOKENS;
    case runtime::FinishReason::kLengthContext:
      return pb::FINISH_REASON_LENGTH_CONTEXT;
    case runtime::FinishReason::kAborted:
      return pb::FINISH_REASON_ABORTED;
    case runtime::FinishReason::kDeadline:
    case runtime::FinishReason::kSlowClient:
    case runtime::FinishReason::kError:
      break;  // EndsInStatus
  }
  return pb::FINISH_REASON_UNSPECIFIED;
}

template <typename T, typename U>
void Set(std::optional<T>& field, bool given, U value) {
  if (given) field = static_cast<T>(value);
}

void ToAsk(const pb::SamplingParams& sampling, Ask& ask) {
  Set(ask.temperature, sampling.has_temperature(), sampling.temperature());
  Set(ask.top_p, sampling.has_top_p(), sampling.top_p());
  Set(ask.top_k, sampling.has_top_k(), sampling.top_k());
  Set(ask.min_p, sampling.has_min_p(), sampling.min_p());
  Set(ask.presence_penalty, sampling.has_presence_penalty(), sampling.presence_penalty());
  Set(ask.frequency_penalty, sampling.has_frequency_penalty(), sampling.frequency_penalty());
  Set(ask.repetition_penalty, sampling.has_repetition_penalty(), sampling.repetition_penalty());
  Set(ask.seed, sampling.has_seed(), sampling.seed());
  Set(ask.n, sampling.has_n(), sampling.n());
  // A map has no order of its own, and what is computed must not depend on chance.
  ask.logit_bias = {sampling.logit_bias().begin(), sampling.logit_bias().end()};
  std::sort(ask.logit_bias.begin(), ask.logit_bias.end());
  ask.allowed_token_ids = {sampling.allowed_token_ids().begin(),
                           sampling.allowed_token_ids().end()};
}

void ToAsk(const pb::StopParams& stop, Ask& ask) {
  Set(ask.max_new_tokens, stop.has_max_new_tokens(), stop.max_new_tokens());
  Set(ask.min_new_tokens, stop.has_min_new_tokens(), stop.min_new_tokens());
  ask.stop_strings = {stop.stop_strings().begin(), stop.stop_strings().end()};
  ask.include_stop = stop.include_stop();
  ask.stop_token_ids = {stop.stop_token_ids().begin(), stop.stop_token_ids().end()};
  ask.ignore_eos = stop.ignore_eos();
}

// JSON knows no infinity, and neither do many readers of ours.
constexpr float kLeastLogprob = -9999;

void Fill(const runtime::Vocabulary& vocabulary, runtime::TokenLogprob token, pb::Logprob& out) {
  out.set_token_id(Unsigned(token.id));
  if (!vocabulary.is_control(token.id)) out.set_bytes(std::string(vocabulary.bytes(token.id)));
  out.set_logprob(std::max(token.logprob, kLeastLogprob));
}

}  // namespace

std::optional<ApiError> ParseMessage(const std::string& bytes, google::protobuf::Message& message) {
  if (message.ParseFromString(bytes)) return std::nullopt;
  if (auto broken = FindBrokenString(bytes, *message.GetDescriptor())) return broken;
  return ApiError{Code::kInvalidArgument,
                  reason::kMalformedMessage,
                  "the request is no " + message.GetDescriptor()->full_name(),
                  {}};
}

Ask ToAsk(const pb::GenerateRequest& request) {
  Ask ask;
  ask.model = request.model();
  if (request.has_text()) ask.text = request.text();
  if (request.has_token_ids()) {
    ask.token_ids.emplace(request.token_ids().ids().begin(), request.token_ids().ids().end());
  }
  ToAsk(request.sampling(), ask);
  ToAsk(request.stop(), ask);
  Set(ask.logprobs, request.output().has_logprobs(), request.output().logprobs());
  ask.prompt_logprobs = request.output().has_prompt_logprobs();
  const pb::SchedulingOptions& scheduling = request.scheduling();
  ask.priority = scheduling.priority();
  Set(ask.queue_timeout, scheduling.has_queue_timeout_ms(), scheduling.queue_timeout_ms());
  return ask;
}

bool EndsInStatus(runtime::FinishReason reason) {
  return ToWire(reason) == pb::FINISH_REASON_UNSPECIFIED;
}

void Fill(const runtime::Started& started, const Admitted& admitted, pb::Started& out) {
  const runtime::SamplingOptions& options = admitted.request.sampling;
  out.set_prompt_tokens(Unsigned(started.prompt_tokens));
  out.set_cached_tokens(Unsigned(started.cached_tokens));
  pb::SamplingParams& sampling = *out.mutable_sampling();
  sampling.set_temperature(options.temperature);
  sampling.set_top_p(options.top_p);
  sampling.set_top_k(options.top_k);
  sampling.set_min_p(options.min_p);
  sampling.set_presence_penalty(options.presence_penalty);
  sampling.set_frequency_penalty(options.frequency_penalty);
  sampling.set_repetition_penalty(options.repetition_penalty);
  sampling.set_seed(options.seed);
  sampling.set_n(Unsigned(admitted.n));
  for (const runtime::LogitBias& bias : options.logit_bias) {
    (*sampling.mutable_logit_bias())[Unsigned(bias.id)] = bias.bias;
  }
  sampling.mutable_allowed_token_ids()->Add(options.allowed_ids.begin(), options.allowed_ids.end());
  const std::vector<runtime::Token>& prompt = admitted.request.prompt;
  out.mutable_prompt_token_ids()->Add(prompt.begin(), prompt.end());
}

void Fill(const runtime::Finished& finished, const std::optional<std::string>& stop_string,
          pb::Finished& out) {
  out.set_reason(ToWire(finished.reason));
  if (stop_string) {
    out.set_stop_string(*stop_string);
  } else if (finished.stop_token) {
    out.set_token(Unsigned(*finished.stop_token));
  }
}

void AddLogprobs(const runtime::Vocabulary& vocabulary, const std::vector<runtime::Token>& tokens,
                 const std::vector<runtime::Logprobs>& logprobs,
                 google::protobuf::RepeatedPtrField<pb::TokenLogprobs>& out) {
  if (logprobs.empty()) return;
  K3_CHECK(logprobs.size() == tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    pb::TokenLogprobs& token = *out.Add();
    Fill(vocabulary, {tokens[i], logprobs[i].chosen}, *token.mutable_chosen());
    for (const runtime::TokenLogprob& top : logprobs[i].top) {
      Fill(vocabulary, top, *token.add_top());
    }
  }
}

}  // namespace k3::server
