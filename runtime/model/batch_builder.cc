#include "runtime/model/batch_builder.h"

#include <algorithm>

namespace k3::runtime {
namespace {

std::size_t WordsFor(const BatchLimits& limits) {
  const auto runs = static_cast<std::size_t>(limits.max_runs);
  const auto exports = static_cast<std::size_t>(limits.max_exports);
  const auto state = static_cast<std::size_t>(limits.state_pages);
  return static_cast<std::size_t>(limits.max_rows + limits.max_logit_rows) + 3 * runs + 1 +
         runs * (static_cast<std::size_t>(limits.max_blocks) + 2 * state) + exports * (2 + state);
}

void CopyIds(std::span<const PageId> ids, std::int32_t* to) {
  for (const PageId id : ids) *to++ = static_cast<std::int32_t>(id);
}

}  // namespace

Result<BatchBuilder> BatchBuilder::Create(kernels::Backend& backend, const BatchLimits& limits) {
  const std::size_t words = WordsFor(limits);
  Result<kernels::Memory> memory = backend.Allocate(words * sizeof(std::int32_t));
  if (!memory.ok()) return memory.error();
  BatchBuilder builder(backend, limits, std::move(memory).value());
  builder.staged_.resize(words);
  return builder;
}

std::span<std::int32_t> BatchBuilder::Stage(const std::int32_t*& field, std::size_t count) {
  K3_CHECK(used_ + count <= staged_.size());
  field = reinterpret_cast<const std::int32_t*>(memory_.data()) + used_;
  const std::span<std::int32_t> place(staged_.data() + used_, count);
  used_ += count;
  return place;
}

kernels::BatchView BatchBuilder::Build(const Plan& plan) {
  K3_CHECK(static_cast<int>(plan.runs.size()) <= limits_.max_runs);
  K3_CHECK(static_cast<int>(plan.exports.size()) <= limits_.max_exports);
  view_ = {};
  used_ = 0;
  StageRows(plan);
  StageTables(plan);
  backend_->Upload(memory_.data(), staged_.data(), used_ * sizeof(std::int32_t));
  return view_;
}

void BatchBuilder::StageRows(const Plan& plan) {
  view_.rows = plan.num_rows();
  view_.runs = static_cast<int>(plan.runs.size());
  K3_CHECK(view_.rows <= limits_.max_rows);
  for (const PlanRun& run : plan.runs) view_.logit_rows += run.logit_rows;
  K3_CHECK(view_.logit_rows <= limits_.max_logit_rows);

  const auto tokens = Stage(view_.tokens, static_cast<std::size_t>(view_.rows));
  const auto first_row = Stage(view_.run_first_row, plan.runs.size() + 1);
  const auto position = Stage(view_.run_position, plan.runs.size());
  const auto slot = Stage(view_.run_slot, plan.runs.size());
  const auto logit_row = Stage(view_.logit_row, static_cast<std::size_t>(view_.logit_rows));
  int row = 0, logit = 0;
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    const PlanRun& run = plan.runs[i];
    const int length = static_cast<int>(run.tokens.size());
    K3_CHECK(length >= 1);
    K3_CHECK(run.logit_rows <= length);
    std::copy(run.tokens.begin(), run.tokens.end(), tokens.begin() + row);
    first_row[i] = row;
    position[i] = run.position;
    slot[i] = run.slot;
    row += length;
    for (int j = run.logit_rows; j > 0; --j) {
      logit_row[static_cast<std::size_t>(logit++)] = row - j;
    }
  }
  first_row.back() = row;
}

void BatchBuilder::StageTables(const Plan& plan) {
  std::size_t blocks = 0;
  for (const PlanRun& run : plan.runs) {
    const auto last = run.position + static_cast<std::int64_t>(run.tokens.size());
    K3_CHECK(static_cast<int>(run.latent_pages.size()) >= cache::BlocksFor(last));
    blocks = std::max(blocks, run.latent_pages.size());
  }
  K3_CHECK(static_cast<int>(blocks) <= limits_.max_blocks);
  const auto state = static_cast<std::size_t>(limits_.state_pages);
  view_.latent_stride = static_cast<int>(blocks);
  view_.state_pages = limits_.state_pages;
  const auto latent = Stage(view_.latent_pages, plan.runs.size() * blocks);
  const auto source = Stage(view_.state_source, plan.runs.size() * state);
  const auto target = Stage(view_.state_target, plan.runs.size() * state);
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    const PlanRun& run = plan.runs[i];
    K3_CHECK(run.state_source.size() == state);
    K3_CHECK(run.state_target.size() == state);
    CopyIds(run.latent_pages, latent.data() + i * blocks);
    CopyIds(run.state_source, source.data() + i * state);
    CopyIds(run.state_target, target.data() + i * state);
  }
  view_.exports = static_cast<int>(plan.exports.size());
  const auto export_run = Stage(view_.export_run, plan.exports.size());
  const auto export_position = Stage(view_.export_position, plan.exports.size());
  const auto export_pages = Stage(view_.export_pages, plan.exports.size() * state);
  for (std::size_t e = 0; e < plan.exports.size(); ++e) {
    K3_CHECK(plan.exports[e].position % cache::kBlockTokens == 0);
    K3_CHECK(plan.exports[e].pages.size() == state);
    export_run[e] = plan.exports[e].run;
    export_position[e] = plan.exports[e].position;
    CopyIds(plan.exports[e].pages, export_pages.data() + e * state);
  }
}

}  // namespace k3::runtime
