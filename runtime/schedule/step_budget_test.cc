#include "runtime/schedule/step_budget.h"

#include <random>

#include <gtest/gtest.h>

namespace k3::runtime {
namespace {

// A machine whose steps take a fixed time plus one per decode row and prefill row.
struct Machine {
  double fixed, decode_row, prefill_row;
  double Seconds(int prefill, int decode) const {
    return fixed + decode_row * decode + prefill_row * prefill;
  }
};

// Kills: no adaption (the first chunk's size for ever), a mean that forgets the decodes beside the
// prefill, a step over the target once it is learned, a chunk far below what the target allows.
TEST(StepBudget, FindsTheTarget) {
  std::mt19937 rng(5);
  for (int round = 0; round < 50; ++round) {
    const auto uniform = [&](double low, double high) {
      return std::uniform_real_distribution<double>(low, high)(rng);
    };
    const Machine machine{uniform(0, 0.02), uniform(0, 0.002), uniform(0.0001, 0.002)};
    const double target = 0.25;
    StepBudget budget(target, 2048);
    int rows = 0;
    for (int step = 0; step < 60; ++step) {
      if (step % 5 == 0) budget.Observe(0, 8, machine.Seconds(0, 8));
      rows = budget.PrefillRows(true);
      budget.Observe(rows, 8, machine.Seconds(rows, 8));
    }
    EXPECT_LE(machine.Seconds(rows, 8), target);
    if (rows < 2048) {
      EXPECT_GE(machine.Seconds(rows + 32, 8), target * 0.7);
    }
  }
}

// Kills: a small chunk when nobody waits for a token, a chunk of nothing on a slow machine, one
// beyond the step, a limit where none is asked for.
TEST(StepBudget, Bounds) {
  StepBudget budget(0.25, 512);
  for (int i = 0; i < 10; ++i) budget.Observe(16, 4, 30);
  EXPECT_EQ(budget.PrefillRows(true), 16);
  EXPECT_EQ(budget.PrefillRows(false), 512);
  EXPECT_EQ(StepBudget(0.25, 8).PrefillRows(true), 8);
  EXPECT_EQ(StepBudget(0, 512).PrefillRows(true), 512);
}

}  // namespace
}  // namespace k3::runtime
