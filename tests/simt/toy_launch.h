// The toy kernels as functions: one translation unit (toy_launch.cc) is compiled with the hooks.
#pragma once
#include <cstdint>

#include "tests/simt/machine.h"

namespace k3::simt::toy {

Report RunBlockSum(const Options& options, const float* x, float* y, int blocks, int n);
Report RunRowNorms(const Options& options, const float* x, float* y, int rows, int n);

struct RecurrenceVectors {
  float* state;
  const float *q, *k, *v, *decay;
  float beta;
  float* out;
};
Report RunRecurrence(const Options& options, const RecurrenceVectors& vectors);
Report RunMmaTile(const Options& options, const std::uint16_t* a, const std::uint16_t* b, float* c);

// A kernel whose two halves meet at different __syncthreads, and one whose barrier nobody fills.
Report RunDivergent(const Options& options);
Report RunDeadlock(const Options& options);

}  // namespace k3::simt::toy
