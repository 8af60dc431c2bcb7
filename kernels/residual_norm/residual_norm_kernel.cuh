// The device side of residual_norm.h, one block a row, in CUDA's own names: nvcc compiles it for
// the GPU, and tests/simt runs the same text on the CPU.
//   1. A row's sums have one order, set by C alone: a thread adds its columns c, c + 256, ...
//      ascending, a warp folds by a fixed tree, warps are added ascending. So a row's bits do not
//      depend on its neighbours in the batch.
//   2. Sums are fp32 with explicit fma; values are rounded once, where they are stored.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/base/bf16.h"
#include "kernels/cuda/device.cuh"
#include "kernels/residual_norm/residual_norm.h"

namespace k3::kernels::cuda {

inline constexpr int kResidualNormThreads = 256;
inline constexpr int kResidualNormWarps = kResidualNormThreads / 32;
static_assert(kMaxResidualSources <= 32, "the softmax over sources runs in one warp");

// What a kernel may take by value: ResidualNormArgs with its array of sources copied in.
struct ResidualNormLaunch {
  ConstTensor sources[kMaxResidualSources];
  int num_sources;
  ConstTensor score;
  ConstTensor weight;
  float eps;
  const std::int32_t* gather;
  Tensor mix;
  Tensor out;
};

inline ResidualNormLaunch MakeLaunch(const ResidualNormArgs& args) {
  ResidualNormLaunch launch = {};
  launch.num_sources = args.num_sources;
  launch.score = args.score;
  launch.weight = args.weight;
  launch.eps = args.eps;
  launch.gather = args.gather;
  launch.mix = args.mix;
  launch.out = args.out;
  for (int i = 0; i < args.num_sources; ++i) launch.sources[i] = args.sources[i];
  return launch;
}

// Dynamic shared memory: the row's mix, kept in fp32 until its norm is known.
inline std::size_t SharedBytes(const ResidualNormLaunch& launch) {
  return static_cast<std::size_t>(launch.out.cols) * sizeof(float);
}

static __device__ __forceinline__ float Load(const ConstTensor& tensor, std::int64_t row, int c) {
  const std::int64_t at = row * tensor.stride + c;
  if (tensor.dtype == DType::kF32) return static_cast<const float*>(tensor.data)[at];
  return ToFloat(static_cast<const Bf16*>(tensor.data)[at]);
}

static __device__ __forceinline__ void Store(const Tensor& tensor, std::int64_t row, int c,
                                             float value) {
  const std::int64_t at = row * tensor.stride + c;
  if (tensor.dtype == DType::kF32) {
    static_cast<float*>(tensor.data)[at] = value;
  } else {
    static_cast<Bf16*>(tensor.data)[at] = ToBf16(value);
  }
}

static __device__ __forceinline__ float SumOfWarp(float value) {
  for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(0xffffffffU, value, d);
  return value;
}

// s_i of source `i`, from the warps' partial sums.
static __device__ __forceinline__ float ScoreOf(const float (*part)[2], int cols, float eps) {
  float squares = 0, dot = 0;
  for (int warp = 0; warp < kResidualNormWarps; ++warp) {
    squares += part[warp][0];
    dot += part[warp][1];
  }
  return dot / sqrtf(squares / static_cast<float>(cols) + eps);
}

static __global__ void __launch_bounds__(kResidualNormThreads)
    ResidualNormKernel(ResidualNormLaunch launch) {
  __shared__ float part[kMaxResidualSources][kResidualNormWarps][2];
  __shared__ float share[kMaxResidualSources];
  __shared__ float mix_squares[kResidualNormWarps];
  K3_DYNAMIC_SHARED(float, mixed);
  const int tid = static_cast<int>(threadIdx.x), warp = tid / 32, lane = tid % 32;
  const int cols = static_cast<int>(launch.out.cols), n = launch.num_sources;
  const std::int64_t t = blockIdx.x;
  const std::int64_t row = launch.gather == nullptr ? t : launch.gather[t];

  if (n > 1) {
    for (int i = 0; i < n; ++i) {
      float squares = 0, dot = 0;
      for (int c = tid; c < cols; c += kResidualNormThreads) {
        const float v = Load(launch.sources[i], row, c);
        squares = fmaf(v, v, squares);
        dot = fmaf(Load(launch.score, 0, c), v, dot);
      }
      squares = SumOfWarp(squares);
      dot = SumOfWarp(dot);
      if (lane == 0) part[i][warp][0] = squares;
      if (lane == 0) part[i][warp][1] = dot;
    }
    __syncthreads();
  }
  if (warp == 0) {
    const bool mine = lane < n;
    const float s = mine && n > 1 ? ScoreOf(part[lane], cols, launch.eps) : 0;
    float top = s;
    for (int i = 0; i < n; ++i) top = fmaxf(top, __shfl_sync(0xffffffffU, mine ? s : top, i));
    const float e = mine ? expf(s - top) : 0;
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += __shfl_sync(0xffffffffU, e, i);
    if (mine) share[lane] = e / sum;
  }
  __syncthreads();

  float squares = 0;
  for (int c = tid; c < cols; c += kResidualNormThreads) {
    float m = 0;
    for (int i = 0; i < n; ++i) m = fmaf(share[i], Load(launch.sources[i], row, c), m);
    mixed[c] = m;
    if (launch.mix.data != nullptr) Store(launch.mix, t, c, m);
    squares = fmaf(m, m, squares);
  }
  squares = SumOfWarp(squares);
  if (lane == 0) mix_squares[warp] = squares;
  __syncthreads();

  float total = 0;
  for (int i = 0; i < kResidualNormWarps; ++i) total += mix_squares[i];
  const float root = sqrtf(total / static_cast<float>(cols) + launch.eps);
  for (int c = tid; c < cols; c += kResidualNormThreads) {
    Store(launch.out, t, c, mixed[c] / root * Load(launch.weight, 0, c));
  }
}

}  // namespace k3::kernels::cuda
