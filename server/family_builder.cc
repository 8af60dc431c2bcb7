#include "server/family_builder.h"

#include <algorithm>
#include <utility>

namespace k3::server {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

void FamilyBuilder::Family(const char* name, const char* help, MetricType type) {
  families_.push_back({name, help, type, {}});
}

void FamilyBuilder::Value(double value, const MetricLabels& labels) {
  ClientMetric& metric = Add(labels);
  if (families_.back().type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
}

void FamilyBuilder::Value(const runtime::Counter& counter, const MetricLabels& labels) {
  Value(static_cast<double>(counter.value()), labels);
}

void FamilyBuilder::Gauge(const char* name, const char* help, double value) {
  Family(name, help, MetricType::Gauge);
  Value(value);
}

void FamilyBuilder::Counter(const char* name, const char* help, const runtime::Counter& counter) {
  Family(name, help, MetricType::Counter);
  Value(counter);
}

ClientMetric& FamilyBuilder::Add(const MetricLabels& labels) {
  ClientMetric& metric = families_.back().metric.emplace_back();
  metric.label = constant_;
  metric.label.insert(metric.label.end(), labels.begin(), labels.end());
  return metric;
}

void MergeInto(std::vector<MetricFamily>& all, std::vector<MetricFamily> more) {
  for (MetricFamily& family : more) {
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const auto& other) { return other.name == family.name; });
    if (same == all.end()) {
      all.push_back(std::move(family));
    } else {
      same->metric.insert(same->metric.end(), family.metric.begin(), family.metric.end());
    }
  }
}

}  // namespace k3::server
