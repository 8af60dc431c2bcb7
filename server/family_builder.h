// Builds metric families one by one: open a family, then give it its series.
//   1. Every series carries the constant labels first.
#pragma once
#include <prometheus/metric_family.h>
#include <string>
#include <vector>

#include "runtime/watch/counters.h"

namespace k3::server {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

class FamilyBuilder {
 public:
  explicit FamilyBuilder(MetricLabels constant) : constant_(std::move(constant)) {}

  void Family(const char* name, const char* help, prometheus::MetricType type);
  // One series of the family opened last.
  void Value(double value, const MetricLabels& labels = {});
  void Value(const runtime::Counter& counter, const MetricLabels& labels = {});
  template <std::size_t N>
  void Value(const runtime::Histogram<N>& histogram, const MetricLabels& labels = {}) {
    prometheus::ClientMetric::Histogram& shown = Add(labels).histogram;
    std::uint64_t cumulative = 0;
    for (std::size_t i = 0; i < N; ++i) {
      cumulative += histogram.count(i);
      shown.bucket.push_back({cumulative, histogram.bounds()[i]});
    }
    // From the buckets, so that count and +Inf agree whatever is observed meanwhile.
    shown.sample_count = cumulative + histogram.count(N);
    shown.sample_sum = histogram.sum();
  }

  // A family of one series.
  void Gauge(const char* name, const char* help, double value);
  void Counter(const char* name, const char* help, const runtime::Counter& counter);
  template <std::size_t N>
  void Histogram(const char* name, const char* help, const runtime::Histogram<N>& histogram,
                 const MetricLabels& labels = {}) {
    Family(name, help, prometheus::MetricType::Histogram);
    Value(histogram, labels);
  }

  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  prometheus::ClientMetric& Add(const MetricLabels& labels);

  MetricLabels constant_;
  std::vector<prometheus::MetricFamily> families_;
};

// A name heads only one block of a scrape: `more` joins the families of the same name in `all`.
void MergeInto(std::vector<prometheus::MetricFamily>& all,
               std::vector<prometheus::MetricFamily> more);

}  // namespace k3::server
