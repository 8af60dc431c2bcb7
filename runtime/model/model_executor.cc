#include "runtime/model/model_executor.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace k3::runtime {
namespace {

// From rows per expert and layer to a few numbers per quarter of the depth.
std::array<ExpertLoad, kExpertLayerGroups> SummariseExperts(const std::vector<std::int32_t>& load,
                                                            int experts) {
  std::array<ExpertLoad, kExpertLayerGroups> groups{};
  std::array<int, kExpertLayerGroups> layers_seen{};
  const std::size_t layers = load.size() / static_cast<std::size_t>(experts);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const auto begin = load.begin() + static_cast<std::ptrdiff_t>(layer) * experts;
    const auto end = begin + experts;
    const std::int64_t tokens = std::accumulate(begin, end, std::int64_t{0});
    if (tokens == 0) continue;
    const std::size_t group = layer * kExpertLayerGroups / layers;
    ExpertLoad& sum = groups[group];
    sum.tokens += tokens;
    sum.imbalance +=
        *std::max_element(begin, end) * static_cast<double>(experts) / static_cast<double>(tokens);
    sum.active += static_cast<double>(experts - std::count(begin, end, 0));
    ++layers_seen[group];
  }
  for (std::size_t group = 0; group < groups.size(); ++group) {
    if (layers_seen[group] == 0) continue;
    groups[group].imbalance /= layers_seen[group];
    groups[group].active /= layers_seen[group];
  }
  return groups;
}

}  // namespace

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
  if (Result<Ok> done = executor->AllocateSampling(); !done.ok()) return done.error();

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

Result<Ok> ModelExecutor::AllocateSampling() {
  const auto rows = static_cast<std::size_t>(options_.max_runs);
  constexpr std::size_t kWordsPerRow = 1 + (1 + kMaxLogprobs) + kMaxLogprobs;
  static_assert(sizeof(float) == sizeof(std::int32_t));
  Result<kernels::Memory> memory = backend_->Allocate(rows * kWordsPerRow * sizeof(std::int32_t));
  if (!memory.ok()) return memory.error();
  sampled_.memory = std::move(memory).value();
  sampled_.chosen = reinterpret_cast<std::int32_t*>(sampled_.memory.data());
  sampled_.logprobs = reinterpret_cast<float*>(sampled_.chosen + rows);
  sampled_.top_ids = reinterpret_cast<std::int32_t*>(sampled_.logprobs + rows * (1 + kMaxLogprobs));
  return Ok{};
}

StepResult ModelExecutor::Run(const Plan& plan) {
  const Tensor logits = Forward(plan);
  const std::vector<NewToken> chosen = Sample(plan, logits);
  StepResult result;
  std::size_t next = 0;
  for (const PlanRun& run : plan.runs) {
    result.tokens.push_back(run.sample ? std::optional(chosen[next++]) : std::nullopt);
  }
  const ConstTensor load = model_->ExpertLoad();
  expert_load_.resize(static_cast<std::size_t>(load.rows * load.cols));
  backend_->Synchronize();
  backend_->Download(expert_load_.data(),
                     reinterpret_cast<const std::byte*>(load.Row<std::int32_t>(0)),
                     expert_load_.size() * sizeof(std::int32_t));
  result.experts = SummariseExperts(expert_load_, static_cast<int>(load.cols));
  return result;
}

void ModelExecutor::StageRow(const SampleSpec& spec) {
  const SamplingOptions& options = *spec.options;
  sample_rows_.push_back({.temperature = options.temperature,
                          .top_p = options.top_p,
                          .seed = options.seed,
                          .choice = options.choice,
                          .position = static_cast<std::uint32_t>(spec.position),
                          .mask = spec.mask.empty() ? nullptr : spec.mask.data(),
                          .min_p = options.min_p,
                          .top_k = options.top_k,
                          .edits = spec.edits.data(),
                          .num_edits = static_cast<int>(spec.edits.size()),
                          .banned = spec.banned.data(),
                          .num_banned = static_cast<int>(spec.banned.size())});
  most_logprobs_ = std::max(most_logprobs_, options.logprobs.value_or(-1));
}

std::vector<NewToken> ModelExecutor::Sample(const Plan& plan, ConstTensor logits) {
  sample_rows_.clear();
  most_logprobs_ = -1;
  for (const PlanRun& run : plan.runs) {
    if (!run.sample) continue;
    // Sampling reads one row of logits per run; drafts will bring more.
    K3_CHECK(run.logit_rows == 1);
    StageRow(*run.sample);
  }
  std::vector<NewToken> tokens(sample_rows_.size());
  if (tokens.empty()) return tokens;
  const auto count = static_cast<std::int64_t>(tokens.size());
  K3_CHECK(logits.rows == count);
  kernels::SampleArgs args{.logits = logits,
                           .rows = sample_rows_.data(),
                           .vocab_limit = options_.vocab_limit,
                           .out = View(sampled_.chosen, 1, count)};
  if (most_logprobs_ >= 0) {
    args.logprobs = View(sampled_.logprobs, count, 1 + most_logprobs_);
    args.top_ids = View(sampled_.top_ids, count, most_logprobs_);
  }
  backend_->Sample(args);
  backend_->Synchronize();
  ReadTokens(plan, tokens);
  return tokens;
}

void ModelExecutor::ReadTokens(const Plan& plan, std::vector<NewToken>& tokens) {
  const auto read = [this](auto& to, const auto* from) {
    backend_->Download(to.data(), reinterpret_cast<const std::byte*>(from),
                       to.size() * sizeof(to[0]));
  };
  std::vector<std::int32_t> chosen(tokens.size());
  read(chosen, sampled_.chosen);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i].id = chosen[i];
  if (most_logprobs_ < 0) return;
  const auto width = static_cast<std::size_t>(most_logprobs_);
  std::vector<float> logprobs(tokens.size() * (1 + width));
  std::vector<std::int32_t> top_ids(tokens.size() * width);
  read(logprobs, sampled_.logprobs);
  if (width > 0) read(top_ids, sampled_.top_ids);
  std::size_t row = 0;
  for (const PlanRun& run : plan.runs) {
    if (!run.sample) continue;
    if (const std::optional<int> wanted = run.sample->options->logprobs) {
      const float* values = logprobs.data() + row * (1 + width);
      Logprobs& out = tokens[row].logprobs.emplace(Logprobs{.chosen = values[0], .top = {}});
      for (std::size_t j = 0; j < static_cast<std::size_t>(*wanted); ++j) {
        const std::int32_t id = top_ids[row * width + j];
        if (id >= 0) out.top.push_back({id, values[1 + j]});
      }
    }
    ++row;
  }
}

}  // namespace k3::runtime
