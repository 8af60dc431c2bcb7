// Reads scrapes, and fills the counters behind them.
#pragma once
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/server/front_end_fixture.h"

namespace k3::server::testing {

struct Sample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};
std::string SeriesOf(const Sample& sample);  // name and labels
std::vector<Sample> Samples(const std::string& text);

// What the series of `name` that carry `labels` sum to, by bucket bound; "" for what has none.
using Shape = std::map<std::string, double>;
Shape Sum(const std::vector<Sample>& samples, const std::string& name,
          const std::map<std::string, std::string>& labels = {});

class MetricsTest : public FrontEndTest {
 protected:
  // Counts something everywhere; the engine is there.
  void CountAtRandom();

  const unsigned seed_ = std::random_device{}();
  std::mt19937 random_{seed_};

 private:
  std::uint64_t Number() { return random_() % 1000; }
  template <std::size_t N>
  void Observe(runtime::Histogram<N>& histogram) {
    for (std::uint64_t i = random_() % 20; i > 0; --i) {
      histogram.Observe(std::exp(static_cast<double>(random_() % 300) / 10 - 12));
    }
  }
};

}  // namespace k3::server::testing
