#include "tests/server/metrics_fixture.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace k3::server::testing {
namespace {

// One line of the exposition format; our label values hold no quotes.
Sample ParseSample(const std::string& line) {
  Sample sample;
  const std::size_t open = line.find('{');
  const std::size_t blank = line.rfind(' ');
  sample.name = line.substr(0, std::min(open, blank));
  sample.value = std::stod(line.substr(blank + 1));
  if (open == std::string::npos) return sample;
  std::istringstream labels(line.substr(open + 1, line.rfind('}') - open - 1));
  for (std::string name, value; std::getline(labels, name, '=');) {
    labels.ignore();
    std::getline(labels, value, '"');
    labels.ignore();
    sample.labels[name] = value;
  }
  return sample;
}

}  // namespace

std::string SeriesOf(const Sample& sample) {
  std::string series = sample.name;
  for (const auto& [label, value] : sample.labels) {
    series.append(" ").append(label).append("=").append(value);
  }
  return series;
}

std::vector<Sample> Samples(const std::string& text) {
  std::vector<Sample> samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line[0] != '#') samples.push_back(ParseSample(line));
  }
  return samples;
}

Shape Sum(const std::vector<Sample>& samples, const std::string& name,
          const std::map<std::string, std::string>& labels) {
  Shape shape;
  for (const Sample& sample : samples) {
    bool counts = sample.name == name;
    for (const auto& [label, value] : labels) {
      const auto found = sample.labels.find(label);
      counts = counts && found != sample.labels.end() && found->second == value;
    }
    if (!counts) continue;
    const auto bound = sample.labels.find("le");
    shape[bound == sample.labels.end() ? "" : bound->second] += sample.value;
  }
  return shape;
}

void MetricsTest::CountAtRandom() {
  std::printf("seed %u\n", seed_);
  runtime::EngineCounters& counters = engine_->counters_for_test();
  for (runtime::Counter* counter :
       {&counters.prompt_tokens_computed, &counters.prompt_tokens_cached,
        &counters.recomputed_tokens, &counters.generation_tokens, &counters.preemptions}) {
    counter->Add(Number());
  }
  counters.requests_running.Set(static_cast<double>(Number()));
  counters.requests_waiting.Set(static_cast<double>(Number()));
  counters.pages_total.Set(100);
  counters.pages_free.Set(static_cast<double>(random_() % 100));
  for (runtime::StepCounters& step : counters.steps) {
    Observe(step.batch_tokens);
    Observe(step.seconds);
  }
  for (auto* histogram :
       {&counters.queue_seconds, &counters.prefill_seconds, &counters.decode_seconds}) {
    Observe(*histogram);
  }
  Observe(counters.inter_token_latency_seconds);
  Observe(counters.time_per_output_token_seconds);
  Observe(counters.request_prompt_tokens);
  Observe(counters.request_generation_tokens);
  Observe(counters.request_max_tokens);
  for (int i = 0; i < 40; ++i) {
    const double seconds = static_cast<double>(Number()) / 100;
    metrics_.Finished(Api::kGrpc, static_cast<Outcome>(random_() % kNumOutcomes), seconds);
    metrics_.FirstToken(Api::kGrpc, seconds);
    metrics_.Tokenized(seconds);
  }
}

}  // namespace k3::server::testing
