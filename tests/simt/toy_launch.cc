#include "tests/simt/toy_launch.h"

#include "tests/simt/simt.h"
// Last: the kernels are written in the names that simt.h defines.
#include "tests/simt/toy_kernels.cuh"

namespace k3::simt::toy {
namespace {

void Divergent() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

void Deadlock() {
  if (threadIdx.x < 32) kernels::cuda::NamedSync(1, 64);
}

}  // namespace

Report RunBlockSum(const Options& options, const float* x, float* y, int blocks, int n) {
  return Launch(BlockSum, {static_cast<unsigned>(blocks), 256}, options, x, y, n);
}

Report RunRowNorms(const Options& options, const float* x, float* y, int rows, int n) {
  return Launch(RowNorms, {1, 256}, options, x, y, rows, n);
}

Report RunRecurrence(const Options& options, const RecurrenceVectors& v) {
  const RecurrenceArgs args = {v.state, v.q, v.k, v.v, v.decay, v.beta, v.out};
  return Launch(Recurrence, {1, 128}, options, args);
}

Report RunMmaTile(const Options& options, const std::uint16_t* a, const std::uint16_t* b,
                  float* c) {
  return Launch(MmaTile, {1, 32}, options, a, b, c);
}

Report RunDivergent(const Options& options) {
  return Launch(Divergent, {1, 64}, options);
}
Report RunDeadlock(const Options& options) {
  return Launch(Deadlock, {1, 64}, options);
}

}  // namespace k3::simt::toy
