#include "server/ctl/bench_report.h"

#include <array>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

namespace k3::server::ctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidth = 50;

struct Metric {
  const char* name;  // in flags and JSON
  const char* title;
  const char* heading;
  Distribution BenchSummary::*values;
};

constexpr std::array kMetrics = {
    Metric{"ttft", "TTFT", "Time to First Token", &BenchSummary::ttft_ms},
    Metric{"tpot", "TPOT", "Time per Output Token (excl. 1st token)", &BenchSummary::tpot_ms},
    Metric{"itl", "ITL", "Inter-token Latency", &BenchSummary::itl_ms},
    Metric{"e2el", "E2EL", "End-to-end Latency", &BenchSummary::e2el_ms},
};

bool IsAsked(const Metric& metric, const BenchCommand& command) {
  const auto& names = command.percentile_metrics;
  return std::find(names.begin(), names.end(), metric.name) != names.end();
}

std::string PercentWord(double percent) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", percent);
  return text.data();
}

std::string Heading(const std::string& text, char fill) {
  const std::size_t around = kWidth - std::min(kWidth, text.size());
  return std::string(around / 2, fill) + text + std::string(around - around / 2, fill) + "\n";
}

std::string Row(const std::string& label, const std::string& value) {
  return label + std::string(40 - std::min<std::size_t>(40, label.size()), ' ') + " " + value +
         "\n";
}

std::string Row(const std::string& label, std::uint64_t value) {
  return Row(label, std::to_string(value));
}

std::string Row(const std::string& label, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return Row(label, std::string(text.data()));
}

double PerSecond(std::uint64_t count, const BenchReport& report) {
  return report.run.duration_s > 0 ? static_cast<double>(count) / report.run.duration_s : 0;
}

std::string CountRows(const BenchReport& report) {
  const BenchSummary& summary = report.summary;
  std::string text = Row("Successful requests:", summary.completed);
  text += Row("Failed requests:", summary.failed);
  for (const auto& [reason, count] : summary.failures) text += Row("  " + reason + ":", count);
  if (const auto limit = report.command.limit()) {
    text += Row("Maximum request concurrency:", static_cast<std::uint64_t>(*limit));
  }
  if (std::isfinite(report.command.rate())) {
    text += Row("Request rate configured (RPS):", report.command.rate());
  }
  text += Row("Benchmark duration (s):", report.run.duration_s);
  text += Row("Total input tokens:", summary.input_tokens);
  text += Row("  of them cached:", summary.cached_tokens);
  return text + Row("Total generated tokens:", summary.output_tokens);
}

std::string RateRows(const BenchReport& report) {
  const BenchSummary& summary = report.summary;
  std::string text = Row("Request throughput (req/s):", PerSecond(summary.completed, report));
  if (report.goodput.any()) {
    text += Row("Request goodput (req/s):", PerSecond(summary.good, report));
  }
  text += Row("Output token throughput (tok/s):", PerSecond(summary.output_tokens, report));
  text += Row("Total token throughput (tok/s):",
              PerSecond(summary.input_tokens + summary.output_tokens, report));
  return text +
         Row("Peak concurrent requests:", static_cast<std::uint64_t>(report.run.peak_concurrency));
}

std::string MetricRows(const Metric& metric, const BenchReport& report) {
  const Distribution& values = report.summary.*metric.values;
  const std::string unit = std::string(metric.title) + " (ms):";
  std::string text = Heading(metric.heading, '-');
  text += Row("Mean " + unit, values.mean) + Row("Median " + unit, values.median) +
          Row("Std " + unit, values.std);
  for (std::size_t i = 0; i < values.percentiles.size(); ++i) {
    text += Row("P" + PercentWord(report.command.metric_percentiles[i]) + " " + unit,
                values.percentiles[i]);
  }
  return text;
}

void AddMetric(const Metric& metric, const BenchReport& report, Json& json) {
  const Distribution& values = report.summary.*metric.values;
  const std::string end = std::string("_") + metric.name + "_ms";
  json["mean" + end] = values.mean;
  json["median" + end] = values.median;
  json["std" + end] = values.std;
  for (std::size_t i = 0; i < values.percentiles.size(); ++i) {
    json["p" + PercentWord(report.command.metric_percentiles[i]) + end] = values.percentiles[i];
  }
}

std::string Date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", localtime_r(&now, &parts));
  return text.data();
}

Json Settings(const BenchReport& report) {
  const BenchCommand& command = report.command;
  Json json;
  json["date"] = Date();
  json["backend"] = "k3serve-grpc";
  json["model_id"] = report.model_id;
  json["num_prompts"] = command.num_prompts;
  json["request_rate"] = std::isfinite(command.rate()) ? Json(command.rate()) : Json("inf");
  json["burstiness"] = command.burstiness;
  json["max_concurrency"] = command.limit() ? Json(*command.limit()) : Json();
  return json;
}

void AddTotals(const BenchReport& report, Json& json) {
  const BenchSummary& summary = report.summary;
  json["duration"] = report.run.duration_s;
  json["completed"] = summary.completed;
  json["failed"] = summary.failed;
  json["failed_by_reason"] = summary.failures;
  json["total_input_tokens"] = summary.input_tokens;
  json["total_cached_tokens"] = summary.cached_tokens;
  json["total_output_tokens"] = summary.output_tokens;
  json["request_throughput"] = PerSecond(summary.completed, report);
  json["request_goodput"] = report.goodput.any() ? Json(PerSecond(summary.good, report)) : Json();
  json["output_throughput"] = PerSecond(summary.output_tokens, report);
  json["total_token_throughput"] = PerSecond(summary.input_tokens + summary.output_tokens, report);
  json["max_concurrent_requests"] = report.run.peak_concurrency;
}

// Seconds, in the order of the requests; a failed one has zeros and its error.
void AddDetails(const BenchReport& report, Json& json) {
  for (const char* name : {"input_lens", "output_lens", "start_times", "ttfts", "itls", "errors"}) {
    json[name] = Json::array();
  }
  for (const RequestRecord& record : report.run.records) {
    const bool well = record.error.empty();
    json["input_lens"].push_back(record.input_tokens);
    json["output_lens"].push_back(well ? record.output_tokens : 0);
    json["start_times"].push_back(record.start_s);
    json["ttfts"].push_back(well ? record.ttft_s.value_or(0) : 0);
    json["itls"].push_back(well ? Json(record.itl_s) : Json::array());
    json["errors"].push_back(well ? "" : record.error + ": " + record.error_message);
  }
}

}  // namespace

std::string ReportText(const BenchReport& report) {
  std::string text = Heading(" Serving Benchmark Result ", '=');
  text += CountRows(report) + RateRows(report);
  for (const Metric& metric : kMetrics) {
    if (IsAsked(metric, report.command)) text += MetricRows(metric, report);
  }
  return text + Heading("", '=');
}

std::string ReportJson(const BenchReport& report) {
  Json json = Settings(report);
  AddTotals(report, json);
  for (const Metric& metric : kMetrics) {
    if (IsAsked(metric, report.command)) AddMetric(metric, report, json);
  }
  if (report.command.save_detailed) AddDetails(report, json);
  // A server's words in `errors` need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace k3::server::ctl
