// k3-compare A B: runs one prompt through two backends and names the first op whose result drifts.
// A and B are "ref", "cpu", or an instruction set of cpu ("x86-64-v3").
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <exception>
#include <random>

#include "tests/model/harness.h"

namespace {

using k3::ConstTensor;
using k3::DType;
using k3::testing::Harness;
using k3::testing::ModelSetup;
using k3::testing::Token;

struct Seen {
  std::string op;
  int layer;
  std::vector<double> values;
};

ModelSetup SetupOf(const std::string& name) {
  if (name == "ref" || name == "cpu") return {.backend = name};
  return {.isa = name};
}

std::vector<double> Values(ConstTensor tensor) {
  std::vector<double> values;
  for (std::int64_t r = 0; r < tensor.rows; ++r) {
    for (std::int64_t c = 0; c < tensor.cols; ++c) {
      values.push_back(tensor.dtype == DType::kI32
                           ? static_cast<double>(tensor.Row<std::int32_t>(r)[c])
                           : static_cast<double>(tensor.Row<float>(r)[c]));
    }
  }
  return values;
}

std::vector<Seen> Record(const std::string& model, const std::string& device,
                         const std::vector<Token>& prompt) {
  Harness harness(model, SetupOf(device));
  auto context = harness.NewContext();
  std::vector<Seen> seen;
  harness.Step({{&context, prompt}}, [&](std::string_view op, int layer, ConstTensor value) {
    seen.push_back({std::string(op), layer, Values(value)});
  });
  return seen;
}

// rms of the difference over rms of the first.
double Drift(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += a[i] * a[i];
  }
  if (difference == 0) return 0;
  return std::sqrt(difference / std::max(size, 1e-30));
}

int Run(int argc, char** argv) {
  CLI::App app{"Names the first op at which two backends drift apart."};
  std::string first = "ref", second = "cpu", model = "tests/golden/k3-micro";
  int length = 70;
  unsigned seed = 1;
  double tolerance = 2e-3;
  app.add_option("first", first, "ref, cpu or an instruction set");
  app.add_option("second", second, "likewise");
  app.add_option("--model", model, "a checkpoint folder");
  app.add_option("--tokens", length, "length of the random prompt")->check(CLI::Range(1, 512));
  app.add_option("--seed", seed, "of the prompt");
  app.add_option("--tolerance", tolerance, "relative rms from which an op counts as drifting");
  CLI11_PARSE(app, argc, argv);

  std::mt19937 rng(seed);
  std::vector<Token> prompt(static_cast<std::size_t>(length));
  for (Token& token : prompt) token = static_cast<Token>(rng() % 2560);
  const std::vector<Seen> a = Record(model, first, prompt);
  const std::vector<Seen> b = Record(model, second, prompt);
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double drift = Drift(a[i].values, b[i].values);
    worst = std::max(worst, drift);
    std::printf("layer %2d  %-16s %.2e\n", a[i].layer, a[i].op.c_str(), drift);
    if (!(drift <= tolerance)) {
      std::printf("first drift: layer %d, %s: relative rms %.2e > %.2e (%s against %s)\n",
                  a[i].layer, a[i].op.c_str(), drift, tolerance, second.c_str(), first.c_str());
      return 1;
    }
  }
  std::printf("no op drifts: %s and %s agree to %.2e over %d tokens\n", first.c_str(),
              second.c_str(), worst, length);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "k3-compare: %s\n", error.what());
    return 1;
  }
}
