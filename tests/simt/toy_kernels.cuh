// Four small kernels, one for each way to need a barrier; ordinary CUDA, unchanged under simt.h.
#pragma once
#include <cstdint>

#include "kernels/cuda/device.cuh"

namespace k3::simt::toy {

// y[b] = sum of x[b*n .. b*n+n): a read must wait for another warp's write.
static __global__ void BlockSum(const float* x, float* y, int n) {
  __shared__ float part[32];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, d);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

// y[r] = x[r] / rms(x[r]), row after row in one buffer: a write must wait for the last row's reads.
static __global__ void RowNorms(const float* x, float* y, int rows, int n) {
  __shared__ float part[32];
  for (int r = 0; r < rows; ++r, x += n, y += n) {
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i] * x[i];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0;
    for (int i = 0; i < static_cast<int>(blockDim.x / 32); ++i) total += part[i];
    __syncthreads();
    const float scale = rsqrtf(total / static_cast<float>(n) + 1e-5F);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i] * scale;
  }
}

struct RecurrenceArgs {
  float* state;    // [128][128], key-major
  const float* q;  // [128], as are k, v and decay
  const float* k;
  const float* v;
  const float* decay;
  float beta;
  float* out;
};

// One delta-rule step, thread j owns column j: every thread reads what every other one staged.
static __global__ void Recurrence(RecurrenceArgs args) {
  __shared__ float q[128], k[128], decay[128];
  const int j = threadIdx.x;
  q[j] = args.q[j];
  k[j] = args.k[j];
  decay[j] = expf(args.decay[j]);
  __syncthreads();
  float recalled = 0;
  for (int i = 0; i < 128; ++i) recalled += k[i] * (args.state[i * 128 + j] * decay[i]);
  const float delta = args.beta * (args.v[j] - recalled);
  float sum = 0;
  for (int i = 0; i < 128; ++i) {
    const float next = args.state[i * 128 + j] * decay[i] + k[i] * delta;
    args.state[i * 128 + j] = next;
    sum += q[i] * next;
  }
  args.out[j] = sum;
}

// c[16x8] = a[16x16] b[16x8] on one warp (b stored column by column): a copy must be waited for.
static __global__ void MmaTile(const std::uint16_t* a, const std::uint16_t* b, float* c) {
  using namespace k3::kernels::cuda;
  __shared__ __align__(16) std::uint16_t left[16 * 16];
  __shared__ __align__(16) std::uint16_t right[8 * 16];
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  CopyAsync16(left + lane * 8, a + lane * 8);
  if (lane < 16) CopyAsync16(right + lane * 8, b + lane * 8);
  CommitCopies();
  WaitForCopies<0>();
  __syncwarp();
  std::uint32_t fa[4], fb[2];
  for (int r = 0; r < 4; ++r) {
    const int row = g + r % 2 * 8, k = t * 2 + r / 2 * 8;
    fa[r] = left[row * 16 + k] | static_cast<std::uint32_t>(left[row * 16 + k + 1]) << 16;
  }
  for (int r = 0; r < 2; ++r) {
    const int k = t * 2 + r * 8;
    fb[r] = right[g * 16 + k] | static_cast<std::uint32_t>(right[g * 16 + k + 1]) << 16;
  }
  const float zero[4] = {0, 0, 0, 0};
  float d[4];
  MmaM16N8K16(d, fa, fb, zero);
  for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
}

}  // namespace k3::simt::toy
