// Sends the requests of a plan and notes when what came back.
//   1. Request i is sent at at_seconds[i], later where max_concurrency calls are in flight, never
//      sooner; in the order of the plan. Its clock starts when it is sent: waiting for a place is
//      not part of its latency.
//   2. Every request has a record, in the plan's order, whatever became of it.
//   3. Times are taken as gRPC hands over an event, before anything is done with it.
//   4. A request failed when its status says so, when the server aborted it, or when the stream
//      ended without Completed.
// The caller's thread sends and counts; a record belongs to its call until the call has ended.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/ctl/bench_plan.h"
#include "server/ctl/bench_stats.h"
#include "server/ctl/remote.h"

namespace k3::server::ctl {

struct BenchLoad {
  std::span<const Prompt> prompts;
  std::span<const double> at_seconds;  // as many
  std::optional<int> max_concurrency;
  std::string id_prefix;  // request ids are this and a number: `k3ctl abort --prefix` finds them
  std::optional<float> temperature;
  std::uint64_t seed = 0;  // of request i: seed + i
  bool ignore_eos = false;
  TimeoutSeconds timeout;
};

struct BenchRun {
  std::vector<RequestRecord> records;
  double duration_s = 0;  // from the first request's turn to the last one's end
  int peak_concurrency = 0;
};

BenchRun RunBench(const Remote& remote, const BenchLoad& load);

}  // namespace k3::server::ctl
