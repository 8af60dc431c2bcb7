// The only dispatch: memory, and one virtual per op. A backend is a place where numbers live and
// the arithmetic that place has. Model code holds tensors and calls ops; it never reads an element.
//   1. Ops of one backend run in the order they were called; results are visible to the host after
//      Synchronize().
//   2. Bits are a function of the arguments: not of threads, rows in the step, or instruction set.
//   3. `ref` is a whole backend, plain and slow; every other one is compared to it.
// One thread calls a backend (the engine thread).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/base/result.h"
#include "kernels/base/tensor.h"
#include "kernels/copy/copy.h"
#include "kernels/embed/embed.h"
#include "kernels/experts/experts.h"
#include "kernels/kda_mix/kda_mix.h"
#include "kernels/linear/linear.h"
#include "kernels/mla_attend/mla_attend.h"
#include "kernels/residual_norm/residual_norm.h"
#include "kernels/route/route.h"
#include "kernels/sample/sample.h"

namespace k3::kernels {

// Memory of a backend, zeroed, aligned to 64 bytes; freed with its owner. Must not outlive the
// backend.
class Memory {
 public:
  using Free = void (*)(std::byte* data, std::size_t bytes);
  Memory() = default;
  Memory(std::byte* data, std::size_t bytes, Free free) : data_(data), bytes_(bytes), free_(free) {}
  Memory(Memory&& other) noexcept : data_(other.data_), bytes_(other.bytes_), free_(other.free_) {
    other.data_ = nullptr;
  }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(free_, other.free_);
    return *this;
  }
  ~Memory() {
    if (data_ != nullptr) free_(data_, bytes_);
  }
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Free free_ = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "ref", "cpu"
  virtual std::string_view isa() const = 0;   // "avx512", "x86-64-v3", "x86-64"
  virtual DType activation_dtype() const = 0;

  // Error kResourceExhausted when the device has no such memory.
  virtual Result<Memory> Allocate(std::size_t bytes) = 0;
  virtual void Upload(std::byte* to, const void* from, std::size_t bytes) = 0;
  virtual void Download(void* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void Synchronize() = 0;

  // Bytes of one context's window in one KDA layer; the contents are the backend's own business.
  virtual std::int64_t KdaWindowBytes(const PageLayout& layout) const = 0;

  virtual void Copy(const CopyArgs& args) = 0;
  virtual void Embed(const EmbedArgs& args) = 0;
  virtual void ResidualNorm(const ResidualNormArgs& args) = 0;
  virtual void Linear(const LinearArgs& args) = 0;
  virtual void KdaMix(const KdaMixArgs& args) = 0;
  virtual void MlaAttend(const MlaAttendArgs& args) = 0;
  virtual void Route(const RouteArgs& args) = 0;
  virtual void Experts(const ExpertsArgs& args) = 0;
  virtual void Sample(const SampleArgs& args) = 0;
};

struct CpuOptions {
  int threads = 0;       // 0: one per core this process may use
  std::string isa = "";  // "": the best this CPU has; a name it lacks is an error
};

std::unique_ptr<Backend> MakeRefBackend();
Result<std::unique_ptr<Backend>> MakeCpuBackend(const CpuOptions& options);
// In a build without CUDA this answers kUnimplemented (backend_cuda_absent.cc).
Result<std::unique_ptr<Backend>> MakeCudaBackend();

// "ref", "cpu" or "cuda"; kInvalidArgument names the choices.
Result<std::unique_ptr<Backend>> MakeBackend(std::string_view name, const CpuOptions& options);

}  // namespace k3::kernels
