// `k3ctl bench`: a load, and how the server bore it.
//   1. Closed loop: `concurrency` calls in flight, the next one when one ends. Open loop: arrivals
//      at request_rate whatever the server does, unless max_concurrency holds them back.
//   2. All faults of the command are told together, before anything is sent.
//   3. The exit code is 0 when at least one request completed, else 1; others as in client.h.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/result.h"
#include "server/ctl/bench_stats.h"

namespace k3::server::ctl {

struct BenchCommand {
  std::string server;
  std::optional<int> concurrency;
  std::optional<double> request_rate;  // none: infinite, all at once
  double burstiness = 1;
  std::optional<int> max_concurrency;
  int num_prompts = 100;
  int num_warmups = 0;
  std::string dataset_path;
  int random_input_len = 1024;
  int random_output_len = 128;
  double random_range_ratio = 0;
  int prefix_len = 0;
  int num_prefixes = 1;
  std::uint64_t seed = 0;
  bool ignore_eos = false;
  std::optional<float> temperature;
  std::optional<double> timeout_seconds;
  std::vector<std::string> percentile_metrics{"ttft", "tpot", "itl", "e2el"};
  std::vector<double> metric_percentiles{50, 90, 95, 99};
  std::vector<std::string> goodput;  // NAME:MS
  std::string result_file;
  bool save_detailed = false;

  double rate() const { return request_rate.value_or(std::numeric_limits<double>::infinity()); }
  std::optional<int> limit() const { return concurrency ? concurrency : max_concurrency; }
};

Result<Goodput> CheckBench(const BenchCommand& command);  // its goodput, once all is well

int Bench(const BenchCommand& command);

}  // namespace k3::server::ctl
