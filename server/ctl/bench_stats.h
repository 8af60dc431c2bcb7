// What a benchmark saw, and what it says of it. Pure: records in, numbers out.
//   1. Percentile p of n sorted values lies at rank p/100 (n-1), linear between neighbours (numpy's
//      default). Nothing has a percentile, mean or deviation of 0; one value is all of them.
//   2. std is of the population (divided by n), as numpy's.
//   3. An arrival is a delta with tokens, of any number: TTFT is the first one's time, E2EL the
//      last one's, ITL the gaps between, so TTFT + sum of ITL = E2EL.
//   4. TPOT = (E2EL - TTFT) / (tokens - 1). An answer of one token has none; its goodput takes 0.
//   5. Failed requests count as failed and in nothing else.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace k3::server::ctl {

struct RequestRecord {
  std::string error;  // its reason, a word; empty: it ended well
  std::string error_message;
  double start_s = 0;  // since the benchmark began
  std::uint64_t input_tokens = 0;
  std::uint64_t cached_tokens = 0;  // part of input_tokens
  std::uint64_t output_tokens = 0;
  std::optional<double> ttft_s;  // none: no token came
  std::vector<double> itl_s;
  double e2el_s = 0;

  void Arrived(std::uint64_t tokens, double at_s);  // since it was sent; 0 tokens are no arrival
};

struct Goodput {  // at most these, all of them; unset: whatever it is
  std::optional<double> ttft_ms, tpot_ms, e2el_ms;

  bool any() const { return ttft_ms || tpot_ms || e2el_ms; }
};

struct Distribution {
  double mean = 0;
  double median = 0;
  double std = 0;
  std::vector<double> percentiles;  // one per percent asked for
};

struct BenchSummary {
  std::uint64_t completed = 0;
  std::uint64_t good = 0;                         // of completed
  std::map<std::string, std::uint64_t> failures;  // by reason
  std::uint64_t failed = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t output_tokens = 0;
  Distribution ttft_ms, tpot_ms, itl_ms, e2el_ms;
};

double Percentile(std::span<const double> sorted, double percent);
Distribution Describe(std::vector<double> values, std::span<const double> percents);
std::optional<double> TimePerOutputToken(const RequestRecord& record);  // seconds
bool IsGood(const RequestRecord& record, const Goodput& goodput);

BenchSummary Summarize(std::span<const RequestRecord> records, std::span<const double> percents,
                       const Goodput& goodput);

}  // namespace k3::server::ctl
