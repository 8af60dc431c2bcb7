#include "runtime/model/model_executor.h"

#include <utility>

namespace k3::runtime {

Result<std::unique_ptr<ModelExecutor>> ModelExecutor::Create(
    std::unique_ptr<kernels::Backend> backend, const ModelConfig& config,
    const TextWeights& weights, const MemoryPlan& memory, const ExecutorOptions& options) {
  std::unique_ptr<ModelExecutor> executor(new ModelExecutor);
  executor->options_ = options;
  executor->memory_ = memory;
  executor->backend_ = std::move(backend);
  kernels::Backend& device = *executor->backend_;

  Result<kernels::Memory> pages = device.Allocate(static_cast<std::size_t>(memory.pool_bytes()));
  if (!pages.ok()) return pages.error();
  executor->pages_ = std::move(pages).value();
  const auto sampled_bytes = sizeof(std::int32_t) * static_cast<std::size_t>(options.max_runs);
  Result<kernels::Memory> sampled = device.Allocate(sampled_bytes);
  if (!sampled.ok()) return sampled.error();
  executor->sampled_ = std::move(sampled).value();

  Result<std::unique_ptr<Model>> model = Model::Create(config, weights, device, memory.layout,
                                                       {.max_rows = options.max_rows,
                                                        .max_logit_rows = options.max_logit_rows,
                                                        .num_slots = options.max_runs});
  if (!model.ok()) return model.error();
  executor->model_ = std::move(model).value();
  Result<BatchBuilder> builder =
      BatchBuilder::Create(device, {.max_rows = options.max_rows,
                                    .max_runs = options.max_runs,
                                    .max_exports = options.max_exports,
                                    .max_blocks = cache::BlocksFor(memory.max_model_len),
                                    .max_logit_rows = options.max_logit_rows,
                                    .state_pages = memory.layout.state_pages});
  if (!builder.ok()) return builder.error();
  executor->builder_ = std::move(builder).value();
  return executor;
}

Tensor ModelExecutor::Forward(const Plan& plan, const Tap& tap) {
  zero_.clear();
  for (const PageId id : plan.zero) zero_.push_back(static_cast<std::int32_t>(id));
  backend_->Copy({.pages = pages_.data(),
                  .page_bytes = memory_.layout.page_bytes,
                  .zero = zero_.data(),
                  .num_zero = static_cast<int>(zero_.size())});
  return model_->Forward(builder_->Build(plan), pages_.data(), tap);
}

StepResult ModelExecutor::Run(const Plan& plan) {
  const Tensor logits = Forward(plan);
  sample_rows_.clear();
  for (const PlanRun& run : plan.runs) {
    if (!run.sample) continue;
    // Sampling reads one row of logits per run; drafts will bring more.
    K3_CHECK(run.logit_rows == 1);
    const SamplingOptions& options = run.sample->options;
    sample_rows_.push_back({.temperature = options.temperature,
                            .top_p = options.top_p,
                            .seed = options.seed,
                            .choice = options.choice,
                            .position = static_cast<std::uint32_t>(run.sample->position)});
  }
  std::vector<std::int32_t> chosen(sample_rows_.size());
  if (!sample_rows_.empty()) {
    const auto count = static_cast<std::int64_t>(chosen.size());
    K3_CHECK(logits.rows == count);
    auto* sampled = reinterpret_cast<std::int32_t*>(sampled_.data());
    backend_->Sample({.logits = logits,
                      .rows = sample_rows_.data(),
                      .vocab_limit = options_.vocab_limit,
                      .out = View(sampled, 1, count)});
    backend_->Synchronize();
    backend_->Download(chosen.data(), sampled_.data(), chosen.size() * sizeof(std::int32_t));
  }
  StepResult result;
  std::size_t next = 0;
  for (const PlanRun& run : plan.runs) {
    result.tokens.push_back(run.sample ? std::optional<Token>(chosen[next++]) : std::nullopt);
  }
  return result;
}

}  // namespace k3::runtime
