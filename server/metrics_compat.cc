#include "server/metrics_compat.h"

#include <algorithm>
#include <array>

#include "kernels/base/check.h"
#include "server/family_builder.h"

namespace k3::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Families = std::vector<MetricFamily>;

// What an alias shows: the sum of a family's series, or of those with one label's value.
struct Source {
  const char* family;
  const char* label = nullptr;
  std::vector<std::string> values = {};
};

struct Alias {
  const char* name;
  Source source;
};

const std::vector<Alias>& Aliases() {
  static const std::vector<Alias> kAliases = {
      {"vllm:num_requests_running", {"k3serve_requests_running"}},
      {"vllm:num_requests_waiting", {"k3serve_requests_waiting"}},
      {"vllm:num_preemptions_total", {"k3serve_preemptions_total"}},
      {"vllm:prompt_tokens_total", {"k3serve_prompt_tokens_total"}},
      {"vllm:generation_tokens_total", {"k3serve_generation_tokens_total"}},
      {"vllm:time_to_first_token_seconds", {"k3serve_time_to_first_token_seconds"}},
      {"vllm:inter_token_latency_seconds", {"k3serve_inter_token_latency_seconds"}},
      {"vllm:request_time_per_output_token_seconds", {"k3serve_time_per_output_token_seconds"}},
      {"vllm:e2e_request_latency_seconds", {"k3serve_request_duration_seconds"}},
      {"vllm:request_queue_time_seconds", {"k3serve_request_phase_seconds", "phase", {"queue"}}},
      {"vllm:request_prefill_time_seconds",
       {"k3serve_request_phase_seconds", "phase", {"prefill"}}},
      {"vllm:request_decode_time_seconds", {"k3serve_request_phase_seconds", "phase", {"decode"}}},
      {"vllm:iteration_tokens_total", {"k3serve_scheduler_batch_tokens"}},
      {"vllm:request_prompt_tokens", {"k3serve_request_prompt_tokens"}},
      {"vllm:request_generation_tokens", {"k3serve_request_generation_tokens"}},
      {"vllm:request_params_max_tokens", {"k3serve_request_max_tokens"}},
  };
  return kAliases;
}

const MetricFamily& FamilyOf(const Families& families, const char* name) {
  const auto found = std::find_if(families.begin(), families.end(),
                                  [&](const MetricFamily& family) { return family.name == name; });
  K3_CHECK(found != families.end());
  return *found;
}

std::string LabelOf(const ClientMetric& metric, const std::string& name) {
  for (const ClientMetric::Label& label : metric.label) {
    if (label.name == name) return label.value;
  }
  return "";
}

// Series of one family have the same bounds.
void AddTo(ClientMetric& sum, const ClientMetric& metric) {
  sum.counter.value += metric.counter.value;
  sum.gauge.value += metric.gauge.value;
  sum.histogram.sample_count += metric.histogram.sample_count;
  sum.histogram.sample_sum += metric.histogram.sample_sum;
  if (sum.histogram.bucket.empty()) {
    sum.histogram.bucket = metric.histogram.bucket;
    return;
  }
  K3_CHECK(sum.histogram.bucket.size() == metric.histogram.bucket.size());
  for (std::size_t i = 0; i < sum.histogram.bucket.size(); ++i) {
    sum.histogram.bucket[i].cumulative_count += metric.histogram.bucket[i].cumulative_count;
  }
}

ClientMetric Sum(const Families& families, const Source& source) {
  ClientMetric sum;
  for (const ClientMetric& metric : FamilyOf(families, source.family).metric) {
    const auto& wanted = source.values;
    const bool counts =
        source.label == nullptr ||
        std::find(wanted.begin(), wanted.end(), LabelOf(metric, source.label)) != wanted.end();
    if (counts) AddTo(sum, metric);
  }
  return sum;
}

// How vLLM would have called the ends of requests. It knows no failed ones.
void AddSuccesses(const Families& families, FamilyBuilder& builder) {
  builder.Family("vllm:request_success_total", "k3serve_requests_finished_total",
                 MetricType::Counter);
  const auto add = [&](const char* name, std::vector<std::string> reasons) {
    const Source source{"k3serve_requests_finished_total", "reason", std::move(reasons)};
    builder.Value(Sum(families, source).counter.value, {{"finished_reason", name}});
  };
  add("stop", {"stop_eos", "stop_token", "stop_string"});
  add("length", {"length"});
  add("abort", {"aborted", "deadline", "slow_client"});
}

void AddCache(const Families& families, FamilyBuilder& builder) {
  const double used = Sum(families, {"k3serve_pages", "state", {"used"}}).gauge.value;
  const double all = Sum(families, {"k3serve_pages"}).gauge.value;
  builder.Gauge("vllm:kv_cache_usage_perc", "Used share of the pages, 0 to 1",
                all > 0 ? used / all : 0);
  const ClientMetric& config = FamilyOf(families, "k3serve_config_info").metric.front();
  builder.Family("vllm:cache_config_info", "k3serve_config_info", MetricType::Gauge);
  builder.Value(1, {{"block_size", LabelOf(config, "block_size")},
                    {"num_gpu_blocks", LabelOf(config, "num_pages")}});
  // There is no prefix cache yet.
  for (const char* name : {"vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"}) {
    builder.Family(name, "Prompt tokens looked up, found", MetricType::Counter);
    builder.Value(0.0);
  }
}

}  // namespace

Families VllmFamilies(const Families& families, const std::string& model_name) {
  const MetricLabels labels = {{"model_name", model_name}, {"engine", "0"}};
  FamilyBuilder builder(labels);
  AddCache(families, builder);
  AddSuccesses(families, builder);
  Families aliases = builder.Take();
  for (const Alias& alias : Aliases()) {
    ClientMetric sum = Sum(families, alias.source);
    sum.label = labels;
    const MetricType type = FamilyOf(families, alias.source.family).type;
    aliases.push_back({alias.name, alias.source.family, type, {std::move(sum)}});
  }
  return aliases;
}

}  // namespace k3::server
