// What a benchmark will ask and when, decided before the first request is sent. Pure: the same
// options and seed give the same plan.
//   1. Random ids lie below the vocabulary's size and are never one of its excluded ids.
//   2. A random prompt is the prefix of its group and a body of its own; request i is of group
//      i mod num_groups, and the prefixes do not depend on how many requests there are.
//   3. Arrivals: gaps of a gamma distribution with this burstiness (1: exponential, a Poisson
//      process) and mean 1 / rate, stretched so that the last request comes at count / rate.
//   4. All faults of a file are told together.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/result.h"

namespace k3::server::ctl {

struct Prompt {
  std::string text;
  std::vector<std::uint32_t> ids;  // instead of text
  int output_tokens = 0;
};

struct RandomPrompts {
  std::uint32_t vocab_size = 0;
  std::vector<std::uint32_t> excluded;
  int count = 0;
  int input_tokens = 0;  // of the body
  int output_tokens = 0;
  double range_ratio = 0;  // lengths are uniform in [(1 - r) n, (1 + r) n], 0 <= r < 1
  int prefix_tokens = 0;
  int num_groups = 1;
};

using Random = std::mt19937_64;

std::vector<Prompt> MakePrompts(const RandomPrompts& wanted, Random& random);

// Lines of {"prompt": "...", "output_len": n} when the first one begins with '{', else prompts.
// Empty lines are passed over; `output_tokens` is for lines that say none.
Result<std::vector<Prompt>> ParsePrompts(std::string_view file, int output_tokens);

// Seconds since the start; all 0 when the rate is infinite.
std::vector<double> ArrivalTimes(int count, double rate, double burstiness, Random& random);

}  // namespace k3::server::ctl
