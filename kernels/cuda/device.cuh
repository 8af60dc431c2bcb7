// What our kernels say to a GPU beyond CUDA's own names. A kernel header (x_kernel.cuh) uses CUDA's
// names and these, so that tests/simt, which defines the same for a CPU, can run it unchanged.
#pragma once
#ifdef __CUDACC__
#include <cstdint>

#include <cuda_runtime.h>

// Dynamic shared memory, aligned for 16-byte copies and for the tensor-memory engine.
#define K3_DYNAMIC_SHARED(T, name)                               \
  extern __shared__ __align__(128) unsigned char name##_bytes[]; \
  T* name = reinterpret_cast<T*>(name##_bytes)

namespace k3::kernels::cuda {

// Sixteen bytes from global to shared memory, behind the thread's back until the wait.
__device__ __forceinline__ void CopyAsync16(void* shared, const void* global) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}
__device__ __forceinline__ void CommitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Barriers 1..15 among `threads` threads of the block; 0 is __syncthreads.
__device__ __forceinline__ void NamedSync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void NamedArrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// d[16x8] = a[16x16] b[16x8] + c on one warp, bf16 in, fp32 out, in PTX's fragment layout.
__device__ __forceinline__ void MmaM16N8K16(float (&d)[4], const std::uint32_t (&a)[4],
                                            const std::uint32_t (&b)[2], const float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]));
}

}  // namespace k3::kernels::cuda
#endif
