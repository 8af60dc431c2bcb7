#include "server/engine_collector.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/version.h"

namespace k3::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using runtime::EngineCounters;
using Labels = std::vector<ClientMetric::Label>;

// Builds families one by one; every series gets the constant labels.
class Builder {
 public:
  explicit Builder(const Labels& constant) : constant_(constant) {}

  void Family(const char* name, const char* help, MetricType type) {
    families_.push_back({name, help, type, {}});
  }
  void Value(double value, const Labels& labels = {}) {
    ClientMetric& metric = Add(labels);
    if (families_.back().type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
  }
  void Gauge(const char* name, const char* help, double value) {
    Family(name, help, MetricType::Gauge);
    Value(value);
  }
  void Counter(const char* name, const char* help, const runtime::Counter& counter) {
    Family(name, help, MetricType::Counter);
    Value(static_cast<double>(counter.value()));
  }
  template <std::size_t N>
  void Histogram(const char* name, const char* help, const runtime::Histogram<N>& histogram,
                 const Labels& labels = {}) {
    Family(name, help, MetricType::Histogram);
    ClientMetric& metric = Add(labels);
    std::uint64_t cumulative = 0;
    for (std::size_t i = 0; i < N; ++i) {
      cumulative += histogram.count(i);
      metric.histogram.bucket.push_back({cumulative, histogram.bounds()[i]});
    }
    metric.histogram.sample_count = cumulative + histogram.count(N);
    metric.histogram.sample_sum = histogram.sum();
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  ClientMetric& Add(const Labels& labels) {
    ClientMetric& metric = families_.back().metric.emplace_back();
    metric.label = constant_;
    metric.label.insert(metric.label.end(), labels.begin(), labels.end());
    return metric;
  }

  const Labels& constant_;
  std::vector<MetricFamily> families_;
};

double ToDouble(const runtime::Counter& counter) {
  return static_cast<double>(counter.value());
}

void AddRequests(const EngineCounters& counters, Builder& builder) {
  builder.Gauge("k3serve_requests_running", "Requests that hold pages now",
                counters.requests_running.value());
  builder.Family("k3serve_requests_waiting", "Requests in the queue now", MetricType::Gauge);
  builder.Value(counters.requests_waiting.value(), {{"reason", "capacity"}});
  builder.Family("k3serve_queue_tokens", "Prompt tokens of waiting requests", MetricType::Gauge);
  builder.Value(counters.queue_tokens.value(), {{"kind", "uncached"}});
  builder.Histogram("k3serve_request_phase_seconds", "Time of a request in one phase",
                    counters.queue_seconds, {{"phase", "queue"}});
}

void AddTokens(const EngineCounters& counters, Builder& builder) {
  builder.Family("k3serve_prompt_tokens_total", "Prompt tokens by where they came from",
                 MetricType::Counter);
  builder.Value(ToDouble(counters.prompt_tokens_computed), {{"source", "computed"}});
  builder.Value(ToDouble(counters.prompt_tokens_cached), {{"source", "cache_hbm"}});
  builder.Family("k3serve_generation_tokens_total", "Tokens generated", MetricType::Counter);
  builder.Value(ToDouble(counters.generation_tokens), {{"channel", "response"}});
  builder.Counter("k3serve_recomputed_tokens_total", "Tokens computed again after a preemption",
                  counters.recomputed_tokens);
  builder.Histogram("k3serve_inter_token_latency_seconds", "Time between tokens of a request",
                    counters.inter_token_latency_seconds);
  builder.Counter("k3serve_nan_logits_total", "Rows of logits that were not numbers",
                  counters.nan_logits);
}

void AddScheduler(const EngineCounters& counters, Builder& builder) {
  static constexpr std::array<const char*, runtime::kNumStepKinds> kKinds = {"prefill", "decode",
                                                                             "mixed"};
  builder.Family("k3serve_scheduler_steps_total", "Steps by what they computed",
                 MetricType::Counter);
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    builder.Value(ToDouble(counters.steps[i]), {{"kind", kKinds[i]}});
  }
  builder.Histogram("k3serve_scheduler_step_seconds", "Time of one step", counters.step_seconds);
  builder.Family("k3serve_preemptions_total", "Requests put back to make room",
                 MetricType::Counter);
  builder.Value(ToDouble(counters.preemptions), {{"kind", "recompute"}});
  builder.Family("k3serve_pages", "Pages of the pool", MetricType::Gauge);
  const double free = counters.pages_free.value();
  builder.Value(free, {{"state", "free"}});
  builder.Value(counters.pages_total.value() - free, {{"state", "used"}});
}

void AddInfo(const ServedModel* model, Builder& builder) {
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
                    {"num_pages", std::to_string(info.pages)},
                    {"page_bytes", std::to_string(info.layout.page_bytes)},
                    {"max_model_len", std::to_string(info.max_model_len)},
                    {"max_num_seqs", std::to_string(info.max_num_seqs)}});
}

void AddState(const Lifecycle& lifecycle, const EngineCounters& counters, Builder& builder) {
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
  Builder builder(constant_);
  AddInfo(model, builder);
  AddState(lifecycle_, counters, builder);
  AddRequests(counters, builder);
  AddTokens(counters, builder);
  AddScheduler(counters, builder);
  return builder.Take();
}

}  // namespace k3::server
