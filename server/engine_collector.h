// Reads the engine's plain counters at scrape time. While there is no engine it shows zeros.
#pragma once
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <string>
#include <vector>

#include "runtime/watch/counters.h"
#include "server/lifecycle.h"

namespace k3::server {

class EngineCollector final : public prometheus::Collectable {
 public:
  // `constant` labels go on every series.
  EngineCollector(const Lifecycle& lifecycle, std::vector<prometheus::ClientMetric::Label> constant)
      : lifecycle_(lifecycle), constant_(std::move(constant)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Lifecycle& lifecycle_;
  std::vector<prometheus::ClientMetric::Label> constant_;
  runtime::EngineCounters zero_;  // stands in until there is an engine
};

// Since the engine's last turn; 0 before the first one. Old means stuck only while it has work.
double HeartbeatAgeSeconds(const runtime::EngineCounters& counters);

}  // namespace k3::server
