#include "server/engine_collector.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "server/family_builder.h"
#include "server/version.h"

namespace k3::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;
using runtime::EngineCounters;
using runtime::StepCounters;

constexpr std::array<const char*, runtime::kNumStepKinds> kStepKinds = {"prefill", "decode",
                                                                        "mixed"};
constexpr std::array<const char*, runtime::kNumOverheadPhases> kOverheadPhases = {"schedule",
                                                                                  "emit"};

void AddInfo(const ServedModel* model, FamilyBuilder& builder) {
  const runtime::EngineInfo none;
  const runtime::EngineInfo& info = model == nullptr ? none : model->engine->info();
  builder.Family("k3serve_build_info", "What this program is", MetricType::Gauge);
  builder.Value(1, {{"version", kVersion}, {"compiler", __VERSION__}});
  builder.Family("k3serve_config_info", "What the engine was started with", MetricType::Gauge);
  builder.Value(1, {{"device", info.device},
                    {"isa", info.isa},
                    {"threads", std::to_string(info.threads)},
                    {"weights_format", "mxfp4"},
                    {"kv_dtype", model == nullptr ? "" : model->facts.kv_cache_dtype},
                    {"block_size", std::to_string(cache::kBlockTokens)},
                    {"num_pages", std::to_string(info.pages)},
                    {"page_bytes", std::to_string(info.layout.page_bytes)},
                    {"max_model_len", std::to_string(info.max_model_len)},
                    {"max_num_seqs", std::to_string(info.max_num_seqs)}});
}

void AddState(const Lifecycle& lifecycle, const EngineCounters& counters, FamilyBuilder& builder) {
  builder.Gauge("k3serve_weights_load_progress_ratio", "Of the whole load, 0 to 1",
                lifecycle.progress());
  builder.Family("k3serve_state", "1 for the state the server is in", MetricType::Gauge);
  const Phase now = lifecycle.phase();
  for (int i = 0; i < kNumPhases; ++i) {
    const auto phase = static_cast<Phase>(i);
    builder.Value(phase == now ? 1 : 0, {{"state", NameOf(phase)}});
  }
  builder.Gauge("k3serve_engine_heartbeat_age_seconds", "Since the engine's last turn; 0 before it",
                HeartbeatAgeSeconds(counters));
}

void AddQueue(const EngineCounters& counters, FamilyBuilder& builder) {
  builder.Gauge("k3serve_requests_running", "Requests that hold pages now, the paused ones too",
                counters.requests_running.value());
  builder.Family("k3serve_requests_waiting", "Requests in the queue now", MetricType::Gauge);
  builder.Value(counters.requests_waiting.value(), {{"reason", "capacity"}});
  builder.Gauge("k3serve_requests_paused", "Requests whose clients read too slowly now",
                counters.requests_paused.value());
  builder.Family("k3serve_queue_tokens", "Prompt tokens of waiting requests", MetricType::Gauge);
  builder.Value(counters.queue_tokens.value(), {{"kind", "uncached"}});
  builder.Gauge("k3serve_queue_retry_after_seconds", "When a full queue will probably have room",
                counters.retry_after_ms.value() / 1000);
}

// From the queue on; tokenizing comes before it, and is the front end's.
void AddRequests(const EngineCounters& counters, FamilyBuilder& builder) {
  builder.Family("k3serve_request_phase_seconds", "Time of a request in one phase",
                 MetricType::Histogram);
  builder.Value(counters.queue_seconds, {{"phase", "queue"}});
  builder.Value(counters.prefill_seconds, {{"phase", "prefill"}});
  builder.Value(counters.decode_seconds, {{"phase", "decode"}});
  builder.Histogram("k3serve_inter_token_latency_seconds", "Time between tokens of a request",
                    counters.inter_token_latency_seconds);
  builder.Histogram("k3serve_time_per_output_token_seconds",
                    "Mean time between tokens, once per request",
                    counters.time_per_output_token_seconds);
  builder.Histogram("k3serve_request_prompt_tokens", "Prompt tokens of a request",
                    counters.request_prompt_tokens);
  builder.Histogram("k3serve_request_generation_tokens", "Tokens generated for a request",
                    counters.request_generation_tokens);
  builder.Histogram("k3serve_request_max_tokens", "Tokens a request may at most generate",
                    counters.request_max_tokens);
  builder.Histogram("k3serve_abort_latency_seconds",
                    "From a client's cancel or disconnect to freed pages", counters.abort_seconds,
                    {{"api", "grpc"}});
}

void AddTokens(const EngineCounters& counters, FamilyBuilder& builder) {
  builder.Family("k3serve_prompt_tokens_total", "Prompt tokens by where they came from",
                 MetricType::Counter);
  builder.Value(counters.prompt_tokens_computed, {{"source", "computed"}});
  builder.Value(counters.prompt_tokens_cached, {{"source", "cache_hbm"}});
  builder.Family("k3serve_generation_tokens_total", "Tokens generated", MetricType::Counter);
  builder.Value(counters.generation_tokens, {{"channel", "response"}});
  builder.Family("k3serve_preemptions_total", "Requests put back to make room",
                 MetricType::Counter);
  builder.Value(counters.preemptions, {{"kind", "recompute"}});
  builder.Counter("k3serve_recomputed_tokens_total", "Tokens computed again after a preemption",
                  counters.recomputed_tokens);
  builder.Counter("k3serve_nan_logits_total", "Rows of logits that were not numbers",
                  counters.nan_logits);
}

// One family with a series per kind of step; `member` is what it shows of each.
template <typename Member>
void AddByKind(const EngineCounters& counters, Member member, const char* label,
               FamilyBuilder& builder) {
  for (std::size_t i = 0; i < kStepKinds.size(); ++i) {
    builder.Value(counters.steps[i].*member, {{label, kStepKinds[i]}});
  }
}

void AddScheduler(const EngineCounters& counters, FamilyBuilder& builder) {
  builder.Family("k3serve_scheduler_steps_total", "Steps by what they computed",
                 MetricType::Counter);
  AddByKind(counters, &StepCounters::steps, "kind", builder);
  builder.Family("k3serve_scheduler_step_seconds", "Time of one step", MetricType::Histogram);
  AddByKind(counters, &StepCounters::seconds, "kind", builder);
  builder.Family("k3serve_scheduler_batch_tokens", "Rows of one step", MetricType::Histogram);
  AddByKind(counters, &StepCounters::batch_tokens, "kind", builder);
  builder.Family("k3serve_scheduler_batch_sequences", "Requests of one step",
                 MetricType::Histogram);
  AddByKind(counters, &StepCounters::batch_sequences, "kind", builder);
  builder.Family("k3serve_scheduler_overhead_seconds", "Time of the engine's thread around a step",
                 MetricType::Histogram);
  for (std::size_t i = 0; i < kOverheadPhases.size(); ++i) {
    builder.Value(counters.overhead_seconds[i], {{"phase", kOverheadPhases[i]}});
  }
  builder.Gauge("k3serve_scheduler_prefill_rows", "Rows of prefill a step may carry now",
                counters.prefill_rows.value());
}

void AddExperts(const EngineCounters& counters, FamilyBuilder& builder) {
  builder.Family("k3serve_moe_expert_tokens_total",
                 "Pairs of a token and an expert, by quarter of the depth", MetricType::Counter);
  for (std::size_t i = 0; i < counters.expert_tokens.size(); ++i) {
    builder.Value(counters.expert_tokens[i], {{"layer_group", std::to_string(i)}});
  }
  builder.Histogram("k3serve_moe_load_imbalance_ratio",
                    "Of a step: tokens of a layer's busiest expert over the mean expert's",
                    counters.expert_imbalance);
  builder.Gauge("k3serve_moe_load_imbalance_last_ratio", "The same, of the last step",
                counters.expert_imbalance_now.value());
  builder.Family("k3serve_moe_active_experts", "Of a step: distinct experts a layer used",
                 MetricType::Histogram);
  AddByKind(counters, &StepCounters::active_experts, "phase", builder);
}

void AddPages(const EngineCounters& counters, FamilyBuilder& builder) {
  builder.Family("k3serve_pages", "Pages of the pool", MetricType::Gauge);
  const double free = counters.pages_free.value();
  builder.Value(free, {{"state", "free"}});
  builder.Value(counters.pages_total.value() - free, {{"state", "used"}});
}

}  // namespace

double HeartbeatAgeSeconds(const EngineCounters& counters) {
  const std::int64_t beat = counters.heartbeat_ms.load(std::memory_order_relaxed);
  if (beat == 0) return 0;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return static_cast<double>(std::max<std::int64_t>(0, now_ms - beat)) / 1000;
}

std::vector<MetricFamily> EngineCollector::Collect() const {
  const ServedModel* model = lifecycle_.model();
  const EngineCounters& counters = model == nullptr ? zero_ : model->engine->counters();
  FamilyBuilder builder(constant_);
  AddInfo(model, builder);
  AddState(lifecycle_, counters, builder);
  AddQueue(counters, builder);
  AddRequests(counters, builder);
  AddTokens(counters, builder);
  AddScheduler(counters, builder);
  AddExperts(counters, builder);
  AddPages(counters, builder);
  return builder.Take();
}

}  // namespace k3::server
