// The process as its kernel sees it, under the names every Prometheus client library uses; without
// labels, as theirs.
#pragma once
#include <prometheus/metric_family.h>
#include <vector>

namespace k3::server {

// Without what /proc does not tell: no number is better than a wrong one.
std::vector<prometheus::MetricFamily> ProcessFamilies();

}  // namespace k3::server
