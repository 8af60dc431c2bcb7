// `cpu`: the ops of the widest instruction set this CPU has, on a team of threads.
#include <cstring>

#include "kernels/cpu_isa.h"
#include "kernels/host_memory.h"

namespace k3::kernels {
namespace {

void CopyPages(const CopyArgs& args, ThreadTeam& team) {
  const auto page = [&](std::int32_t id) { return args.pages + id * args.page_bytes; };
  const auto bytes = static_cast<std::size_t>(args.page_bytes);
  ParallelFor(team, args.num_zero, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) std::memset(page(args.zero[i]), 0, bytes);
  });
  ParallelFor(team, args.num_copies, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::memcpy(page(args.to[i]), page(args.from[i]), bytes);
  });
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(CpuIsa isa, int threads) : isa_(isa), team_(threads) {}

  std::string_view name() const override { return "cpu"; }
  std::string_view isa() const override { return isa_.name; }
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
    return isa_.ops->kda_window_bytes(layout);
  }
  void Copy(const CopyArgs& args) override { CopyPages(args, team_); }
  void Embed(const EmbedArgs& args) override { Run(isa_.ops->embed, args); }
  void ResidualNorm(const ResidualNormArgs& args) override { Run(isa_.ops->residual_norm, args); }
  void Linear(const LinearArgs& args) override { Run(isa_.ops->linear, args); }
  void KdaMix(const KdaMixArgs& args) override { Run(isa_.ops->kda_mix, args); }
  void MlaAttend(const MlaAttendArgs& args) override { Run(isa_.ops->mla_attend, args); }
  void Route(const RouteArgs& args) override { Run(isa_.ops->route, args); }
  void Experts(const ExpertsArgs& args) override { Run(isa_.ops->experts, args); }
  void Sample(const SampleArgs& args) override { Run(isa_.ops->sample, args); }

 private:
  template <typename Args>
  void Run(void (*op)(const Args&, CpuContext&), const Args& args) {
    CpuContext context{team_, scratch_};
    op(args, context);
    scratch_.Reset();
  }

  CpuIsa isa_;
  ThreadTeam team_;
  Scratch scratch_;
};

}  // namespace

std::vector<CpuIsa> UsableIsas() {
  std::vector<CpuIsa> usable;
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
  if (v3 && avx512) usable.push_back({"avx512", &avx512::Ops()});
  if (v3) usable.push_back({"x86-64-v3", &x86_64_v3::Ops()});
  usable.push_back({"x86-64", &x86_64::Ops()});
  return usable;
}

std::unique_ptr<Backend> MakeCpuBackendOf(const CpuIsa& isa, int threads) {
  return std::make_unique<CpuBackend>(isa, threads);
}

Result<std::unique_ptr<Backend>> MakeCpuBackend(const CpuOptions& options) {
  if (options.threads < 0) {
    return Error{Code::kInvalidArgument,
                 "threads = " + std::to_string(options.threads) +
                     ": expected 0 (one per core) or the number of threads"};
  }
  const int threads = options.threads == 0 ? UsableCores() : options.threads;
  std::string names;
  for (const CpuIsa& isa : UsableIsas()) {
    if (options.isa.empty() || options.isa == isa.name) return MakeCpuBackendOf(isa, threads);
    names += std::string(names.empty() ? "" : ", ") + std::string(isa.name);
  }
  return Error{Code::kInvalidArgument,
               "instruction set \"" + options.isa + "\": this CPU runs " + names};
}

}  // namespace k3::kernels
