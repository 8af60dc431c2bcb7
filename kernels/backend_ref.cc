// `ref`: the plain backend that every other one is compared to.
#include <cstring>

#include "kernels/base/thread_team.h"
#include "kernels/host_memory.h"
#include "kernels/ref_ops.h"

namespace k3::kernels {
namespace {

class RefBackend final : public Backend {
 public:
  // Its one thread computes in the same floating-point mode as the others'.
  RefBackend() { SetFloatMode(); }

  std::string_view name() const override { return "ref"; }
  std::string_view isa() const override { return "x86-64"; }
  DType activation_dtype() const override { return DType::kF32; }

  Result<Memory> Allocate(std::size_t bytes) override { return AllocateHost(bytes); }
  void Upload(std::byte* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void Download(void* to, const std::byte* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void Synchronize() override {}

  std::int64_t KdaWindowBytes(const PageLayout& layout) const override {
    return ref::KdaWindowBytes(layout);
  }
  void Copy(const CopyArgs& args) override { ref::Copy(args); }
  void Embed(const EmbedArgs& args) override { ref::Embed(args); }
  void ResidualNorm(const ResidualNormArgs& args) override { ref::ResidualNorm(args); }
  void Linear(const LinearArgs& args) override { ref::Linear(args); }
  void KdaMix(const KdaMixArgs& args) override { ref::KdaMix(args); }
  void MlaAttend(const MlaAttendArgs& args) override { ref::MlaAttend(args); }
  void Route(const RouteArgs& args) override { ref::Route(args); }
  void Experts(const ExpertsArgs& args) override { ref::Experts(args); }
  void Sample(const SampleArgs& args) override { ref::Sample(args); }
};

}  // namespace

std::unique_ptr<Backend> MakeRefBackend() {
  return std::make_unique<RefBackend>();
}

}  // namespace k3::kernels
