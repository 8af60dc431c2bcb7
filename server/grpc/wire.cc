#include "server/grpc/wire.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include "proto/k3serve/v1/control.pb.h"
#include "proto/k3serve/v1/inference.pb.h"
#include "server/version.h"

namespace k3::server {
namespace {

namespace pb = k3serve::v1;
using google::protobuf::FieldDescriptor;
using google::protobuf::UnknownField;

constexpr double kMsPerSecond = 1000;

std::uint32_t Unsigned(std::int64_t value) {
  return static_cast<std::uint32_t>(value);
}

// The first top-level string that is not UTF-8. Requests nest no strings.
std::optional<ApiError> FindBrokenString(const std::string& bytes,
                                         const google::protobuf::Descriptor& type) {
  google::protobuf::UnknownFieldSet fields;
  if (!fields.ParseFromString(bytes)) return std::nullopt;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    const FieldDescriptor* known = type.FindFieldByNumber(field.number());
    if (known == nullptr || known->type() != FieldDescriptor::TYPE_STRING ||
        field.type() != UnknownField::TYPE_LENGTH_DELIMITED) {
      continue;
    }
    if (auto broken = CheckUtf8(known->name().c_str(), field.length_delimited())) return broken;
  }
  return std::nullopt;
}

pb::FinishReason ToWire(runtime::FinishReason reason) {
  switch (reason) {
    case runtime::FinishReason::kStopEos:
      return pb::FINISH_REASON_STOP_EOS;
    case runtime::FinishReason::kStopToken:
      return pb::FINISH_REASON_STOP_TOKEN;
    case runtime::FinishReason::kLengthMaxTokens:
      return pb::FINISH_REASON_LENGTH_MAX_TOKENS;
    case runtime::FinishReason::kLengthContext:
      return pb::FINISH_REASON_LENGTH_CONTEXT;
    case runtime::FinishReason::kAborted:
      return pb::FINISH_REASON_ABORTED;
    case runtime::FinishReason::kError:  // told as a status, never as an event
      break;
  }
  return pb::FINISH_REASON_UNSPECIFIED;
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
  const pb::SamplingParams& sampling = request.sampling();
  if (sampling.has_temperature()) ask.temperature = sampling.temperature();
  if (sampling.has_top_p()) ask.top_p = sampling.top_p();
  if (sampling.has_seed()) ask.seed = sampling.seed();
  const pb::StopParams& stop = request.stop();
  if (stop.has_max_new_tokens()) ask.max_new_tokens = stop.max_new_tokens();
  ask.stop_token_ids = {stop.stop_token_ids().begin(), stop.stop_token_ids().end()};
  ask.ignore_eos = stop.ignore_eos();
  return ask;
}

void Fill(const runtime::Started& started, const runtime::SamplingOptions& sampling,
          pb::Started& out) {
  out.set_prompt_tokens(Unsigned(started.prompt_tokens));
  out.set_cached_tokens(Unsigned(started.cached_tokens));
  out.mutable_sampling()->set_temperature(sampling.temperature);
  out.mutable_sampling()->set_top_p(sampling.top_p);
  out.mutable_sampling()->set_seed(sampling.seed);
}

void Fill(const runtime::Finished& finished, pb::Finished& out) {
  out.set_reason(ToWire(finished.reason));
  if (finished.stop_token) out.set_token(Unsigned(*finished.stop_token));
}

void Fill(const runtime::Finished& finished, pb::Completed& out) {
  pb::Usage& usage = *out.mutable_usage();
  usage.set_prompt_tokens(Unsigned(finished.usage.prompt_tokens));
  usage.set_completion_tokens(Unsigned(finished.usage.completion_tokens));
  usage.set_total_tokens(usage.prompt_tokens() + usage.completion_tokens());
  usage.set_cached_tokens(Unsigned(finished.usage.cached_tokens));
  const runtime::Timings& measured = finished.timings;
  pb::Timings& timings = *out.mutable_timings();
  timings.set_queue_ms(measured.queue * kMsPerSecond);
  timings.set_e2e_ms(measured.total * kMsPerSecond);
  timings.set_preemptions(Unsigned(measured.preemptions));
  if (usage.completion_tokens() == 0) return;
  timings.set_ttft_ms(measured.ttft * kMsPerSecond);
  timings.set_prefill_ms((measured.ttft - measured.queue) * kMsPerSecond);
  timings.set_decode_ms((measured.total - measured.ttft) * kMsPerSecond);
}

void Fill(const ServedModel& model, pb::ModelInfo& out) {
  const ModelFacts& facts = model.facts;
  const runtime::EngineInfo& info = model.engine->info();
  for (const std::string& name : facts.names) out.add_names(name);
  out.set_weights_fingerprint(facts.fingerprint);
  out.set_weights_bytes(static_cast<std::uint64_t>(facts.weights_bytes));
  out.set_num_layers(Unsigned(facts.num_layers));
  out.set_vocab_size(Unsigned(model.num_usable_ids()));
  out.set_max_model_len(Unsigned(info.max_model_len));
  out.set_max_position_embeddings(Unsigned(facts.max_position_embeddings));
  for (const std::int32_t id : facts.eos_ids) out.add_eos_token_ids(Unsigned(id));
  out.set_server_version(kVersion);
  pb::Execution& execution = *out.mutable_execution();
  execution.set_device(info.device);
  execution.set_isa(info.isa);
  execution.set_threads(Unsigned(info.threads));
  execution.set_max_num_seqs(Unsigned(info.max_num_seqs));
  execution.set_max_num_batched_tokens(Unsigned(info.max_num_batched_tokens));
  execution.set_max_queued_requests(Unsigned(info.max_queued_requests));
  execution.set_num_pages(Unsigned(info.pages));
  execution.set_page_bytes(static_cast<std::uint64_t>(info.layout.page_bytes));
  execution.set_block_tokens(cache::kBlockTokens);
  execution.set_state_pages(Unsigned(info.layout.state_pages));
  execution.set_kv_cache_dtype(facts.kv_cache_dtype);
}

}  // namespace k3::server
