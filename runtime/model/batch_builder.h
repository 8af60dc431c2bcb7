// Turns a plan into the BatchView its ops read: one upload per step, into memory sized at start.
#pragma once
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/batch_view.h"
#include "runtime/schedule/plan.h"

namespace k3::runtime {

struct BatchLimits {
  int max_rows = 0;
  int max_runs = 0;
  int max_exports = 0;
  int max_blocks = 0;  // latent pages of one sequence
  int max_logit_rows = 0;
  int state_pages = 0;
};

class BatchBuilder {
 public:
  static Result<BatchBuilder> Create(kernels::Backend& backend, const BatchLimits& limits);

  // Aborts when the plan is beyond the limits. The view is good until the next Build.
  kernels::BatchView Build(const Plan& plan);

 private:
  BatchBuilder(kernels::Backend& backend, const BatchLimits& limits, kernels::Memory memory)
      : backend_(&backend), limits_(limits), memory_(std::move(memory)) {}

  void StageRows(const Plan& plan);
  void StageTables(const Plan& plan);
  // Where the next `count` numbers go, and remembers to point `field` there once uploaded.
  std::span<std::int32_t> Stage(const std::int32_t*& field, std::size_t count);

  kernels::Backend* backend_;
  BatchLimits limits_;
  kernels::Memory memory_;
  kernels::BatchView view_;
  std::vector<std::int32_t> staged_;
  std::size_t used_ = 0;
};

}  // namespace k3::runtime
