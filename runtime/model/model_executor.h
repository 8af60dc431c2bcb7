// Runs plans on a model: zeroes what was taken, forward, sample. Does what it is told; takes no
// decisions.
#pragma once
#include <memory>

#include "kernels/backend.h"
#include "runtime/memory/memory_plan.h"
#include "runtime/model/batch_builder.h"
#include "runtime/model/model.h"
#include "runtime/schedule/plan.h"

namespace k3::runtime {

struct ExecutorOptions {
  int max_rows = 0;
  int max_runs = 0;
  int max_exports = 0;
  int max_logit_rows = 0;
  int vocab_limit = 0;  // ids from here on are never sampled
};

class ModelExecutor final : public Executor {
 public:
  // `config` and `weights` must outlive the executor.
  static Result<std::unique_ptr<ModelExecutor>> Create(std::unique_ptr<kernels::Backend> backend,
                                                       const ModelConfig& config,
                                                       const TextWeights& weights,
                                                       const MemoryPlan& memory,
                                                       const ExecutorOptions& options);

  StepResult Run(const Plan& plan) override;

  // Zeroes, then forward; the logits as Model::Forward gives them.
  Tensor Forward(const Plan& plan, const Tap& tap = {});

  kernels::Backend& backend() { return *backend_; }
  std::byte* pages() { return pages_.data(); }

 private:
  ModelExecutor() = default;

  ExecutorOptions options_;
  MemoryPlan memory_;
  std::unique_ptr<kernels::Backend> backend_;  // outlives everything below
  kernels::Memory pages_;
  kernels::Memory sampled_;  // I32 [max_runs]
  std::unique_ptr<Model> model_;
  std::optional<BatchBuilder> builder_;
  std::vector<std::int32_t> zero_;
  std::vector<kernels::SampleRow> sample_rows_;
};

}  // namespace k3::runtime
