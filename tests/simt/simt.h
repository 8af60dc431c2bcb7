// CUDA's names for g++: include this before a kernel header and the kernel is host code that
// simt::Launch runs. Only what our kernels use is here; a new name is added when a kernel needs it.
//   - Kernels with static __shared__ arrays must not be templates (their section would clash).
//   - What a real GPU does not order, the machine does not order either; what it leaves undefined
//     (a lane outside the mask, shared memory before its first write) is poison.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/base/bf16.h"
#include "tests/simt/machine.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// Static __shared__ arrays lie in one linker section, which the machine poisons and watches.
#define __shared__ static __attribute__((section("simt_shared")))
#define K3_DYNAMIC_SHARED(T, name) T* name = static_cast<T*>(::k3::simt::DynamicShared())

#define threadIdx (::k3::simt::Here().thread)
#define blockIdx (::k3::simt::Here().block)
#define blockDim (::k3::simt::Here().block_dim)
#define gridDim (::k3::simt::Here().grid_dim)
#define __syncthreads() ::k3::simt::BlockBarrier({__FILE__, __LINE__})

inline void __syncwarp(unsigned mask = 0xffffffffU) {
  k3::simt::WarpBarrier(mask);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

namespace k3::simt {

template <typename T>
T ReadLane(unsigned mask, T value, int source) {
  T all[32];
  WarpGather(mask, &value, sizeof value, all);
  return all[source & 31];
}
inline int Lane() {
  return static_cast<int>(Here().lane);
}

}  // namespace k3::simt

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int base = k3::simt::Lane() & ~(width - 1);
  return k3::simt::ReadLane(mask, value, base | (source & (width - 1)));
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int flip) {
  return k3::simt::ReadLane(mask, value, k3::simt::Lane() ^ flip);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, int delta, int width = 32) {
  const int lane = k3::simt::Lane();
  const bool inside = (lane & (width - 1)) + delta < width;
  return k3::simt::ReadLane(mask, value, inside ? lane + delta : lane);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, int delta, int width = 32) {
  const int lane = k3::simt::Lane();
  const bool inside = (lane & (width - 1)) - delta >= 0;
  return k3::simt::ReadLane(mask, value, inside ? lane - delta : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const int mine = predicate != 0 ? 1 : 0;
  int all[32];
  k3::simt::WarpGather(mask, &mine, sizeof mine, all);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1U) != 0 && all[lane] == 1) votes |= 1U << lane;
  }
  return votes;
}
inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int p) {
  return __ballot_sync(mask, p) == mask ? 1 : 0;
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}
inline float rsqrtf(float x) {
  return 1.0F / std::sqrt(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}

// The host side of kernels/cuda/device.cuh.
namespace k3::kernels::cuda {

inline void CopyAsync16(void* shared, const void* global) {
  simt::CopyLater(shared, global, 16);
}
inline void CommitCopies() {
  simt::CloseCopyGroup();
}
template <int kPending>
void WaitForCopies(simt::Site site = {__builtin_FILE(), __builtin_LINE()}) {
  simt::LandCopies(kPending, site);
}
inline void NamedSync(int id, int threads, simt::Site site = {__builtin_FILE(), __builtin_LINE()}) {
  simt::NamedBarrier(id, threads, true, site);
}
inline void NamedArrive(int id, int threads,
                        simt::Site site = {__builtin_FILE(), __builtin_LINE()}) {
  simt::NamedBarrier(id, threads, false, site);
}

inline float HalfOf(std::uint32_t pair, int half) {
  return ToFloat(Bf16{static_cast<std::uint16_t>(pair >> (16 * half))});
}

// A lane (g = lane / 4, t = lane % 4) holds rows g and g + 8 of a, column g of b, and two columns
// from 2t of every 8 of k; PTX ISA, "Matrix fragments for mma.m16n8k16".
inline void MmaM16N8K16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                        const float (&c)[4]) {
  struct Fragment {
    std::uint32_t a[4], b[2];
  };
  Fragment mine, all[32];
  std::memcpy(mine.a, a, sizeof a);
  std::memcpy(mine.b, b, sizeof b);
  simt::WarpGather(0xffffffffU, &mine, sizeof mine, all);
  const int g = simt::Lane() / 4, t = simt::Lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = g + i / 2 * 8, column = 2 * t + i % 2;
    float sum = c[i];
    for (int k = 0; k < 16; ++k) {
      const Fragment& left = all[row % 8 * 4 + k % 8 / 2];
      const Fragment& right = all[column * 4 + k % 8 / 2];
      sum += HalfOf(left.a[row / 8 + k / 8 * 2], k % 2) * HalfOf(right.b[k / 8], k % 2);
    }
    d[i] = sum;
  }
}

}  // namespace k3::kernels::cuda
