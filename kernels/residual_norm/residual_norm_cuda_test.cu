#include <vector>

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/residual_norm/residual_norm_problem.h"

namespace k3::kernels {
namespace {

// A copy of host memory on the GPU, for as long as it lives.
class OnGpu {
 public:
  OnGpu(const void* data, std::size_t bytes) {
    K3_CHECK(cudaMalloc(&data_, bytes) == cudaSuccess);
    K3_CHECK(cudaMemcpy(data_, data, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
  }
  ~OnGpu() { cudaFree(data_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

template <typename T>
OnGpu Copy(const std::vector<T>& values) {
  return OnGpu(values.data(), values.size() * sizeof(T));
}

std::vector<float> Solve(const ResidualNormProblem& problem) {
  std::vector<float> out(static_cast<std::size_t>(problem.t) * problem.c);
  const OnGpu values = Copy(problem.values), halves = Copy(problem.halves);
  const OnGpu score = Copy(problem.score), weight = Copy(problem.weight);
  const OnGpu gather = Copy(problem.gather), result = Copy(out);
  std::vector<Tensor> sources = problem.sources;
  for (Tensor& source : sources) {
    const bool wide = source.dtype == DType::kF32;
    const auto* const from = wide ? reinterpret_cast<const std::byte*>(problem.values.data())
                                  : reinterpret_cast<const std::byte*>(problem.halves.data());
    const auto offset = static_cast<const std::byte*>(source.data) - from;
    source.data = static_cast<std::byte*>((wide ? values : halves).data()) + offset;
  }
  ResidualNormArgs args =
      problem.Args(View(static_cast<float*>(result.data()), problem.t, problem.c));
  args.sources = sources.data();
  if (!args.score.empty()) args.score.data = score.data();
  args.weight.data = weight.data();
  args.gather = static_cast<const std::int32_t*>(gather.data());
  cuda::ResidualNorm(args, nullptr);
  const std::size_t bytes = out.size() * sizeof(float);
  K3_CHECK(cudaMemcpy(out.data(), result.data(), bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
  return out;
}

// Kills: what only a real device shows: a launch that is refused (shared memory, registers), host
// pointers passed as device ones, and code built for another architecture.
TEST(ResidualNormCuda, FormulaAtRealWidth) {
  for (const int cols : {37, 300, 7168}) {
    for (const int n : {1, 9, 32}) {
      const ResidualNormProblem problem(n, 5, cols);
      EXPECT_EQ(problem.WrongValues(Solve(problem)), 0) << "n " << n << " C " << cols;
    }
  }
}

}  // namespace
}  // namespace k3::kernels
