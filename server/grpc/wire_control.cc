// The Control service's answers, from what is known here.
#include <algorithm>

#include "proto/k3serve/v1/control.pb.h"
#include "server/front_end.h"
#include "server/grpc/wire.h"
#include "server/version.h"

namespace k3::server {
namespace {

namespace pb = k3serve::v1;
using Clock = std::chrono::steady_clock;

std::uint32_t Unsigned(std::int64_t value) {
  return static_cast<std::uint32_t>(value);
}

std::uint32_t Unsigned(const runtime::Gauge& gauge) {
  return static_cast<std::uint32_t>(std::max(gauge.value(), 0.0));
}

double Uptime(const FrontEnd& front_end) {
  return std::chrono::duration<double>(Clock::now() - front_end.program.started).count();
}

void FillNow(const runtime::EngineCounters& counters, pb::LoadSnapshot& out) {
  out.set_running(Unsigned(counters.requests_running));
  out.set_waiting(Unsigned(counters.requests_waiting));
  out.set_paused(Unsigned(counters.requests_paused));
  out.set_waiting_tokens(static_cast<std::uint64_t>(counters.queue_tokens.value()));
  out.set_pages_total(static_cast<std::uint64_t>(counters.pages_total.value()));
  out.set_pages_free(static_cast<std::uint64_t>(counters.pages_free.value()));
  out.set_prefill_rows(Unsigned(counters.prefill_rows));
  out.set_expert_load_imbalance(counters.expert_imbalance_now.value());
}

void FillTotals(const runtime::EngineCounters& counters, pb::LoadSnapshot& out) {
  out.set_prompt_tokens_computed_total(counters.prompt_tokens_computed.value());
  out.set_prompt_tokens_cached_total(counters.prompt_tokens_cached.value());
  out.set_generation_tokens_total(counters.generation_tokens.value());
  out.set_recomputed_tokens_total(counters.recomputed_tokens.value());
  out.set_preemptions_total(counters.preemptions.value());
  std::uint64_t finished = 0, steps = 0;
  double seconds = 0;
  for (const runtime::Counter& counter : counters.requests_finished) finished += counter.value();
  for (const runtime::StepCounters& kind : counters.steps) {
    steps += kind.steps.value();
    seconds += kind.seconds.sum();
  }
  out.set_requests_finished_total(finished);
  out.set_steps_total(steps);
  out.set_step_seconds_total(seconds);
}

}  // namespace

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

void Fill(const FrontEnd& front_end, pb::ServerInfo& out) {
  out.set_server_version(kVersion);
  out.set_state(NameOf(front_end.lifecycle.phase()));
  out.set_uptime_seconds(Uptime(front_end));
  for (const Setting& setting : front_end.program.settings) {
    pb::Setting& told = *out.add_settings();
    told.set_name(setting.name);
    told.set_value(setting.value);
    told.set_origin(setting.origin);
  }
}

void Fill(const FrontEnd& front_end, std::size_t most_requests, pb::LoadSnapshot& out) {
  out.set_uptime_seconds(Uptime(front_end));
  if (const ServedModel* model = front_end.lifecycle.model()) {
    FillNow(model->engine->counters(), out);
    FillTotals(model->engine->counters(), out);
    out.set_max_num_seqs(Unsigned(model->engine->info().max_num_seqs));
  }
  const Clock::time_point now = Clock::now();
  for (const auto& call : front_end.calls.Oldest(most_requests)) {
    pb::RequestLoad& load = *out.add_requests();
    load.set_request_id(call->facts.request_id);
    load.set_state(NameOf(call->state.load()));
    load.set_prompt_tokens(Unsigned(call->facts.prompt_tokens));
    load.set_generated_tokens(Unsigned(call->generated.load()));
    load.set_age_seconds(std::chrono::duration<double>(now - call->since).count());
    load.set_priority(call->facts.priority);
    load.set_tenant(call->facts.tenant);
  }
}

}  // namespace k3::server
