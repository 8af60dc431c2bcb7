#include "server/ctl/bench_stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/base/check.h"

namespace k3::server::ctl {
namespace {

constexpr double kMsPerSecond = 1000;

bool Within(double seconds, const std::optional<double>& limit_ms) {
  return !limit_ms || seconds * kMsPerSecond <= *limit_ms;
}

struct Samples {
  std::vector<double> ttft_ms, tpot_ms, itl_ms, e2el_ms;

  void Add(const RequestRecord& record) {
    if (record.ttft_s) ttft_ms.push_back(*record.ttft_s * kMsPerSecond);
    if (const auto tpot_s = TimePerOutputToken(record)) tpot_ms.push_back(*tpot_s * kMsPerSecond);
    for (const double gap_s : record.itl_s) itl_ms.push_back(gap_s * kMsPerSecond);
    e2el_ms.push_back(record.e2el_s * kMsPerSecond);
  }
};

}  // namespace

void RequestRecord::Arrived(std::uint64_t tokens, double at_s) {
  if (tokens == 0) return;
  output_tokens += tokens;
  if (ttft_s) {
    itl_s.push_back(at_s - e2el_s);
  } else {
    ttft_s = at_s;
  }
  e2el_s = at_s;
}

double Percentile(std::span<const double> sorted, double percent) {
  K3_CHECK(percent >= 0);
  K3_CHECK(percent <= 100);
  if (sorted.empty()) return 0;
  const double rank = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], rank - static_cast<double>(below));
}

Distribution Describe(std::vector<double> values, std::span<const double> percents) {
  std::sort(values.begin(), values.end());
  Distribution all;
  if (!values.empty()) {
    const auto count = static_cast<double>(values.size());
    all.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
    double squares = 0;
    for (const double value : values) squares += (value - all.mean) * (value - all.mean);
    all.std = std::sqrt(squares / count);
  }
  all.median = Percentile(values, 50);
  for (const double percent : percents) all.percentiles.push_back(Percentile(values, percent));
  return all;
}

std::optional<double> TimePerOutputToken(const RequestRecord& record) {
  if (record.output_tokens < 2 || !record.ttft_s) return std::nullopt;
  return (record.e2el_s - *record.ttft_s) / static_cast<double>(record.output_tokens - 1);
}

bool IsGood(const RequestRecord& record, const Goodput& goodput) {
  return record.error.empty() && Within(record.ttft_s.value_or(0), goodput.ttft_ms) &&
         Within(TimePerOutputToken(record).value_or(0), goodput.tpot_ms) &&
         Within(record.e2el_s, goodput.e2el_ms);
}

BenchSummary Summarize(std::span<const RequestRecord> records, std::span<const double> percents,
                       const Goodput& goodput) {
  BenchSummary summary;
  Samples samples;
  for (const RequestRecord& record : records) {
    if (!record.error.empty()) {
      ++summary.failed;
      ++summary.failures[record.error];
      continue;
    }
    ++summary.completed;
    summary.good += IsGood(record, goodput) ? 1 : 0;
    summary.input_tokens += record.input_tokens;
    summary.cached_tokens += record.cached_tokens;
    summary.output_tokens += record.output_tokens;
    samples.Add(record);
  }
  summary.ttft_ms = Describe(std::move(samples.ttft_ms), percents);
  summary.tpot_ms = Describe(std::move(samples.tpot_ms), percents);
  summary.itl_ms = Describe(std::move(samples.itl_ms), percents);
  summary.e2el_ms = Describe(std::move(samples.e2el_ms), percents);
  return summary;
}

}  // namespace k3::server::ctl
