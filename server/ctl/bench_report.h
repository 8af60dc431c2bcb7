// A benchmark's result for people, and for programs: the JSON has the names and units that
// `vllm bench serve --save-result` writes, so that scripts for one read the other. What only we
// know (failed_by_reason, total_cached_tokens) is beside them.
#pragma once
#include <string>

#include "server/ctl/bench.h"
#include "server/ctl/bench_run.h"
#include "server/ctl/bench_stats.h"

namespace k3::server::ctl {

struct BenchReport {
  const BenchCommand& command;
  const Goodput& goodput;
  std::string model_id;
  const BenchRun& run;
  BenchSummary summary;
};

std::string ReportText(const BenchReport& report);
std::string ReportJson(const BenchReport& report);  // one object and a newline

}  // namespace k3::server::ctl
