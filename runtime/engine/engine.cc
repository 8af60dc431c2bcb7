#include "runtime/engine/engine.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

#include "kernels/base/thread_team.h"
#include "runtime/engine/engine_loop.h"
#include "runtime/memory/memory_plan.h"
#include "runtime/model/model_executor.h"

namespace k3::runtime {
namespace {

std::int64_t PhysicalBytes() {
  return std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
}

Result<Ok> CheckOptions(const EngineOptions& options) {
  std::string faults;
  const auto at_least = [&faults](const char* flag, std::int64_t value, std::int64_t least) {
    if (value >= least) return;
    if (!faults.empty()) faults += '\n';
    faults += std::string(flag) + " is " + std::to_string(value) + "; it must be at least " +
              std::to_string(least);
  };
  at_least("--max-num-seqs", options.max_num_seqs, 1);
  at_least("--max-num-batched-tokens", options.max_num_batched_tokens,
           std::max(1, options.max_num_seqs));
  at_least("--max-queued-requests", options.max_queued_requests, 0);
  at_least("--max-queued-tokens", options.max_queued_tokens, 0);
  at_least("--target-inter-token-latency-ms", options.target_inter_token_ms, 0);
  at_least("--long-prefill-token-threshold", options.long_prefill_tokens, 1);
  at_least("--max-unread-tokens", options.max_unread_tokens, 1);
  at_least("--slow-client-timeout", options.slow_client_timeout_ms, 0);
  at_least("--threads", options.threads, 0);
  at_least("--cache-bytes", options.cache_bytes, 0);
  at_least("--max-model-len", options.max_model_len, 0);
  if (options.max_model_len == 1) {
    at_least("--max-model-len", 1, 2);  // a prompt token and one to generate
  }
  if (faults.empty()) return Ok{};
  return Error{Code::kInvalidArgument, faults};
}

// Runs the largest step once, so that working memory has its final size and the first request does
// not pay for it. A model larger than memory is left alone: a step would read all of it from disk.
void WarmUp(ModelExecutor& executor, const MemoryPlan& memory, const ExecutorOptions& options) {
  const int rows = std::min(options.max_rows, memory.max_model_len);
  const std::vector<Token> tokens(static_cast<std::size_t>(rows), 0);
  std::vector<PageId> pages;
  pages.reserve(static_cast<std::size_t>(memory.num_pages));
  for (int i = 0; i < memory.layout.state_pages + cache::BlocksFor(rows); ++i) {
    pages.push_back(static_cast<PageId>(i));
  }
  const auto all = std::span<const PageId>(pages);
  const auto state = all.first(static_cast<std::size_t>(memory.layout.state_pages));
  Plan plan{.zero = pages, .runs = {}, .exports = {}};
  plan.runs.push_back({.tokens = tokens,
                       .latent_pages = all.subspan(state.size()),
                       .state_source = state,
                       .state_target = state,
                       .logit_rows = std::min(options.max_logit_rows, rows)});
  for (int i = 0; i < 2; ++i) executor.Forward(plan);  // scratch takes its size at the second
  executor.backend().Synchronize();
}

LoopLimits LimitsOf(const EngineOptions& options, const MemoryPlan& plan, int vocab_size) {
  return {.scheduler = {.max_num_seqs = options.max_num_seqs,
                        .max_num_batched_tokens = options.max_num_batched_tokens,
                        .max_model_len = plan.max_model_len,
                        .state_pages = plan.layout.state_pages,
                        .num_pages = plan.num_pages,
                        .vocab_size = vocab_size,
                        .long_prefill_tokens = options.long_prefill_tokens},
          .max_queued_requests = options.max_queued_requests,
          .max_queued_tokens = options.max_queued_tokens,
          .target_inter_token = std::chrono::milliseconds(options.target_inter_token_ms),
          .max_unread_tokens = options.max_unread_tokens,
          .slow_client_timeout = std::chrono::milliseconds(options.slow_client_timeout_ms)};
}

}  // namespace

// In the order they must outlive each other: the loop's thread uses all above it.
struct Engine::Impl {
  EngineInfo info;
  Checkpoint checkpoint;
  EngineCounters counters;
  std::unique_ptr<EngineLoop> loop;
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options,
                                               Checkpoint checkpoint) {
  if (Result<Ok> valid = CheckOptions(options); !valid.ok()) return valid.error();
  const kernels::CpuOptions cpu{.threads = options.threads, .isa = options.isa};
  Result<std::unique_ptr<kernels::Backend>> backend = kernels::MakeBackend(options.device, cpu);
  if (!backend.ok()) return backend.error();
  Result<MemoryPlan> memory =
      PlanMemory(checkpoint.config(), {.cache_bytes = options.cache_bytes,
                                       .max_model_len = options.max_model_len,
                                       .max_num_seqs = options.max_num_seqs,
                                       .latent_dtype = options.latent_dtype});
  if (!memory.ok()) return memory.error();
  const MemoryPlan& plan = memory.value();

  auto impl = std::unique_ptr<Impl>(
      new Impl{.info = {}, .checkpoint = std::move(checkpoint), .counters = {}, .loop = nullptr});
  const ModelConfig& config = impl->checkpoint.config();
  impl->info = {.device = options.device,
                .isa = std::string(backend.value()->isa()),
                .threads = options.threads > 0 ? options.threads : UsableCores(),
                .max_model_len = plan.max_model_len,
                .max_num_seqs = options.max_num_seqs,
                .max_num_batched_tokens = options.max_num_batched_tokens,
                .max_queued_requests = options.max_queued_requests,
                .pages = plan.num_pages,
                .layout = plan.layout,
                .vocab_size = config.vocab_size};
  const ExecutorOptions limits{.max_rows = options.max_num_batched_tokens,
                               .max_runs = options.max_num_seqs,
                               .max_exports = 0,
                               .max_logit_rows = options.max_num_seqs,
                               .vocab_limit = options.vocab_limit > 0
                                                  ? std::min(options.vocab_limit, config.vocab_size)
                                                  : config.vocab_size};
  Result<std::unique_ptr<ModelExecutor>> executor = ModelExecutor::Create(
      std::move(backend).value(), config, impl->checkpoint.weights(), plan, limits);
  if (!executor.ok()) return executor.error();
  if (impl->checkpoint.total_bytes() < PhysicalBytes()) WarmUp(*executor.value(), plan, limits);

  const LoopLimits loop = LimitsOf(options, plan, config.vocab_size);
  impl->loop = std::make_unique<EngineLoop>(loop, std::move(executor).value(), impl->counters);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

const EngineInfo& Engine::info() const {
  return impl_->info;
}
const Checkpoint& Engine::checkpoint() const {
  return impl_->checkpoint;
}
const EngineCounters& Engine::counters() const {
  return impl_->counters;
}

Submitted Engine::Submit(Request request, std::span<Outbox* const> outboxes) {
  return impl_->loop->Submit(std::move(request), outboxes);
}
void Engine::End(RequestId id, FinishReason reason, std::optional<int> completion_tokens) {
  impl_->loop->End(id, reason, completion_tokens);
}
bool Engine::Drain(std::chrono::milliseconds timeout) {
  return impl_->loop->Drain(timeout);
}
void Engine::Stop() {
  impl_->loop->Stop();
}

}  // namespace k3::runtime
