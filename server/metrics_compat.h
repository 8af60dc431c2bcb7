// The same numbers under the names that routers, autoscalers and dashboards made for vLLM read.
//   1. Pure: every alias is computed from the collected families; nothing is counted twice.
//   2. Every alias is there, at zero where its source has nothing, with the labels `model_name`
//      and engine="0".
#pragma once
#include <prometheus/metric_family.h>
#include <string>
#include <vector>

namespace k3::server {

std::vector<prometheus::MetricFamily> VllmFamilies(
    const std::vector<prometheus::MetricFamily>& families, const std::string& model_name);

}  // namespace k3::server
