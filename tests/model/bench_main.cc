// k3-bench-model DIR: prefill and decode speed of a whole model, beside the roofs of this machine
// measured in the same process. Medians of several rounds; the machines are shared.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>

#include "kernels/testing/roofline.h"
#include "tests/model/harness.h"

namespace {

using k3::testing::Context;
using k3::testing::Feed;
using k3::testing::Harness;
using k3::testing::Token;

std::vector<Token> Tokens(int count, unsigned seed) {
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  for (Token& token : tokens)
    token = static_cast<Token>((seed = seed * 1664525U + 1013904223U) >> 16U) % 2560;
  return tokens;
}

// Wall time: what a client waits for.
double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double PrefillRate(Harness& harness, int length, int rounds) {
  std::vector<double> rates;
  for (int round = 0; round < rounds; ++round) {
    Context context = harness.NewContext();
    const double begin = Now();
    harness.Step({{&context, Tokens(length, static_cast<unsigned>(round)), {}, true}});
    rates.push_back(length / (Now() - begin));
  }
  return Median(rates);
}

double DecodeRate(Harness& harness, int batch, int context_length, int steps) {
  std::vector<std::unique_ptr<Context>> contexts;
  for (int i = 0; i < batch; ++i) {
    contexts.push_back(std::make_unique<Context>(harness.NewContext()));
    harness.Step(
        {{contexts.back().get(), Tokens(context_length, static_cast<unsigned>(i)), {}, true}});
  }
  std::vector<double> rates;
  for (int step = 0; step < steps; ++step) {
    std::vector<Feed> feeds;
    feeds.reserve(contexts.size());
    for (int i = 0; i < batch; ++i) {
      feeds.push_back({contexts[static_cast<std::size_t>(i)].get(),
                       Tokens(1, static_cast<unsigned>(step * 64 + i)),
                       {},
                       true});
    }
    const double begin = Now();
    harness.Step(feeds);
    rates.push_back(batch / (Now() - begin));
  }
  return Median(rates);
}

int Run(int argc, char** argv) {
  CLI::App app{"Prefill and decode speed of a model on this machine."};
  std::string model, isa;
  int threads = k3::UsableCores(), context = 128, rounds = 5, steps = 24;
  app.add_option("model,--model", model, "a checkpoint folder")->required();
  app.add_option("--threads", threads, "worker threads");
  app.add_option("--isa", isa, "instruction set; the best one by default");
  app.add_option("--context", context, "tokens before the decode steps")->check(CLI::Range(1, 512));
  app.add_option("--rounds", rounds, "prefills per figure");
  app.add_option("--steps", steps, "decode steps per figure");
  CLI11_PARSE(app, argc, argv);

  double read = 0, fma = 0;
  {
    k3::ThreadTeam team(threads);
    read = k3::kernels::ReadRoof(team);
    fma = k3::kernels::FmaRoof(team);
  }
  std::printf("threads %d; roofs here: read %.1f GB/s, fp32 fma %.0f GFLOP/s\n", threads,
              read / 1e9, fma / 1e9);
  Harness harness(model, {.isa = isa,
                          .threads = threads,
                          .latents = k3::DType::kBf16,
                          .cache_bytes = std::int64_t{2} << 30});
  PrefillRate(harness, Harness::kMaxRows, 1);  // touches the pages of the file
  for (const int length : {128, 512}) {
    std::printf("prefill %4d tokens      %8.1f tokens/s\n", length,
                PrefillRate(harness, length, rounds));
  }
  for (const int batch : {1, 8}) {
    std::printf("decode  batch %d          %8.1f tokens/s\n", batch,
                DecodeRate(harness, batch, context, steps));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "k3-bench-model: %s\n", error.what());
    return 1;
  }
}
