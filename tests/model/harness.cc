#include "tests/model/harness.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "kernels/cpu_isa.h"

namespace k3::testing {
namespace {

std::unique_ptr<kernels::Backend> MakeBackendFor(const ModelSetup& setup) {
  if (setup.isa == "avx512-emulated") {
    return kernels::MakeCpuBackendOf({setup.isa, &kernels::avx512_emulated::Ops()}, setup.threads);
  }
  auto backend = kernels::MakeBackend(setup.backend, {.threads = setup.threads, .isa = setup.isa});
  if (!backend.ok()) std::fprintf(stderr, "%s\n", backend.error().message.c_str());
  return std::move(backend).value();
}

}  // namespace

Harness::Harness(const std::string& checkpoint_dir, const ModelSetup& setup) {
  auto checkpoint = runtime::Checkpoint::Open(checkpoint_dir, {});
  if (!checkpoint.ok()) std::fprintf(stderr, "%s\n", checkpoint.error().message.c_str());
  checkpoint_ = std::move(checkpoint).value();
  memory_ = runtime::PlanMemory(config(), {.cache_bytes = setup.cache_bytes,
                                           .max_model_len = setup.max_model_len,
                                           .max_num_seqs = kMaxContexts,
                                           .latent_dtype = setup.latents})
                .value();
  executor_ = runtime::ModelExecutor::Create(MakeBackendFor(setup), config(),
                                             checkpoint_->weights(), memory_,
                                             {.max_rows = kMaxRows,
                                              .max_runs = kMaxContexts,
                                              .max_exports = 64,
                                              .max_logit_rows = kMaxRows,
                                              .vocab_limit = config().vocab_size})
                  .value();
  pool_ = std::make_unique<cache::PagePool>(memory_.num_pages);
}

Harness::~Harness() = default;

std::vector<PageId> Harness::TakeInto(cache::Pages& pages, int count) {
  cache::Pages taken = *pool_->Take(count);
  std::vector<PageId> ids(taken.ids().begin(), taken.ids().end());
  zero_.insert(zero_.end(), ids.begin(), ids.end());
  pages.Append(std::move(taken));
  return ids;
}

Context Harness::NewContext() {
  Context context{.state = {}, .blocks = {}, .slot = slots_.Take()};
  context.source = TakeInto(context.state, memory_.layout.state_pages);
  return context;
}

Context Harness::Resume(const Snapshot& snapshot) {
  Context context = NewContext();
  context.position = snapshot.position;
  context.source.assign(snapshot.state.ids().begin(), snapshot.state.ids().end());
  context.shared_blocks = snapshot.blocks;
  return context;
}

std::vector<Row> Harness::Step(std::vector<Feed> feeds, const runtime::Tap& tap) {
  runtime::Plan plan;
  std::vector<std::vector<PageId>> tables;
  for (Feed& feed : feeds) {
    Context& context = *feed.context;
    const int end = context.position + static_cast<int>(feed.tokens.size());
    const int held = context.blocks.size() + static_cast<int>(context.shared_blocks.size());
    TakeInto(context.blocks, std::max(0, cache::BlocksFor(end) - held));
    tables.push_back(context.shared_blocks);
    tables.back().insert(tables.back().end(), context.blocks.ids().begin(),
                         context.blocks.ids().end());
  }
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    Context& context = *feeds[i].context;
    plan.runs.push_back(
        {.slot = context.slot.id(),
         .position = context.position,
         .tokens = feeds[i].tokens,
         .latent_pages = tables[i],
         .state_source = context.source,
         .state_target = context.state.ids(),
         .logit_rows = feeds[i].last_row_only ? 1 : static_cast<int>(feeds[i].tokens.size())});
    for (Snapshot* snapshot : feeds[i].exports) {
      TakeInto(snapshot->state, memory_.layout.state_pages);
      snapshot->blocks.assign(tables[i].begin(),
                              tables[i].begin() + cache::BlocksFor(snapshot->position));
      plan.exports.push_back({.run = static_cast<int>(i),
                              .position = snapshot->position,
                              .pages = snapshot->state.ids()});
    }
  }
  plan.zero = std::exchange(zero_, {});
  const Tensor logits = executor_->Forward(plan, tap);
  std::vector<Row> rows;
  for (std::int64_t r = 0; r < logits.rows; ++r) {
    const float* row = logits.Row<float>(r);
    rows.emplace_back(row, row + logits.cols);
  }
  for (Feed& feed : feeds) {
    Context& context = *feed.context;
    const int before = context.position;
    context.position += static_cast<int>(feed.tokens.size());
    if (before / cache::kBlockTokens != context.position / cache::kBlockTokens) {
      context.source.assign(context.state.ids().begin(), context.state.ids().end());
    }
  }
  return rows;
}

std::vector<Row> Harness::Run(Context& context, const std::vector<Token>& tokens,
                              const std::vector<int>& sizes) {
  std::vector<Row> rows;
  std::size_t next = 0;
  for (std::size_t at = 0; at < tokens.size(); ++next) {
    const auto size = static_cast<std::size_t>(sizes[std::min(next, sizes.size() - 1)]);
    const std::size_t end = std::min(tokens.size(), at + size);
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    std::vector<Row> part =
        Step({{&context, {begin, tokens.begin() + static_cast<std::ptrdiff_t>(end)}}});
    std::move(part.begin(), part.end(), std::back_inserter(rows));
    at = end;
  }
  return rows;
}

void Harness::PoisonFreePages() {
  const cache::Pages free = *pool_->Take(pool_->num_free());
  for (const PageId id : free.ids()) {
    std::memset(executor_->pages() + static_cast<std::int64_t>(id) * memory_.layout.page_bytes,
                0xff, static_cast<std::size_t>(memory_.layout.page_bytes));
  }
}

const std::byte* Harness::page(PageId id) const {
  return executor_->pages() + static_cast<std::int64_t>(id) * memory_.layout.page_bytes;
}

Token Argmax(const Row& row) {
  return static_cast<Token>(std::max_element(row.begin(), row.end()) - row.begin());
}

}  // namespace k3::testing
