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

// What the sampler writes, for `max_runs` rows.
struct SampleBuffers {
  kernels::Memory memory;
  std::int32_t* chosen = nullptr;   // [max_runs]
  float* logprobs = nullptr;        // [max_runs, 1 + kMaxLogprobs]
  std::int32_t* top_ids = nullptr;  // [max_runs, kMaxLogprobs]
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

  Result<Ok> AllocateSampling();
  // Sampling of the plan's rows, in order; their logits are the model's last.
  std::vector<NewToken> Sample(const Plan& plan, ConstTensor logits);
  void StageRow(const SampleSpec& spec);
  void ReadTokens(const Plan& plan, std::vector<NewToken>& tokens);

  ExecutorOptions options_;
  MemoryPlan memory_;
  std::unique_ptr<kernels::Backend> backend_;  // outlives everything below
  kernels::Memory pages_;
  SampleBuffers sampled_;
  std::unique_ptr<Model> model_;
  std::optional<BatchBuilder> builder_;
  std::vector<std::int32_t> zero_;
  std::vector<kernels::SampleRow> sample_rows_;
  int most_logprobs_ = -1;                 // that a row of the step wants; -1: none does
  std::vector<std::int32_t> expert_load_;  // as Model::ExpertLoad()
};

}  // namespace k3::runtime
