// The engine: one thread that owns scheduler, pages and sequences, and drives a backend.
//   1. Submit and Cancel may come from any thread; they meet the engine in one bounded inbox.
//   2. An accepted request gets exactly one Finished in its outbox, whatever happens: done,
//      cancelled, late, unread, engine stopped, NaN logits. The outbox must live until then, and
//      may die right after.
//   3. A request's tokens depend on the request alone, never on what else runs (design section 6).
//   4. Text never comes here.
#pragma once
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/page_layout.h"
#include "runtime/engine/outbox.h"
#include "runtime/engine/submission.h"
#include "runtime/schedule/request.h"
#include "runtime/watch/counters.h"
#include "runtime/weights/checkpoint.h"

namespace k3::runtime {

struct EngineOptions {
  std::string device = "cpu";        // "ref", "cpu", "cuda"
  int threads = 0;                   // 0: one per usable core
  std::string isa;                   // "": the best there is
  std::int64_t cache_bytes = 0;      // the page pool; 0: a default from free memory
  int max_model_len = 0;             // 0: max_position_embeddings, cut to what the pool holds
  int max_num_seqs = 16;             // sequences running at once
  int max_num_batched_tokens = 256;  // rows of a step
  int max_queued_requests = 256;     // waiting beyond the running ones
  std::int64_t max_queued_tokens = std::int64_t{4} << 20;  // of waiting requests' prompts
  int target_inter_token_ms = 250;      // prefill chunks shrink to keep it while others decode
  int long_prefill_tokens = 8192;       // prompts with more to compute yield to shorter ones
  int max_unread_tokens = 1024;         // a client this far behind pauses its sequence
  int slow_client_timeout_ms = 30'000;  // ... and this long paused ends it
  DType latent_dtype = DType::kBf16;    // kBf16, or kF32
  int vocab_limit = 0;                  // ids the tokenizer knows; 0: the whole vocabulary
};

// What does not change after start; shown by GetModelInfo and at start-up.
struct EngineInfo {
  std::string device, isa;
  int threads = 0;
  int max_model_len = 0;
  int max_num_seqs = 0;
  int max_num_batched_tokens = 0;
  int max_queued_requests = 0;
  int pages = 0;
  kernels::PageLayout layout{};
  int vocab_size = 0;
};

class Engine {
 public:
  // Takes the checkpoint; allocates everything that will ever be allocated; runs one warm-up step.
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options,
                                                Checkpoint checkpoint);
  ~Engine();  // as Stop()

  const EngineInfo& info() const;
  const Checkpoint& checkpoint() const;
  const EngineCounters& counters() const;

  // One choice per box, all or none; their ids follow each other, as do their `sampling.choice`. On
  // refusal the boxes are untouched.
  Submitted Submit(Request request, std::span<Outbox* const> outboxes);

  // The request finishes with `reason` within one step and frees all it held; one already finished
  // is left alone. With `completion_tokens` only so many of its tokens count.
  void End(RequestId id, FinishReason reason, std::optional<int> completion_tokens = std::nullopt);

  // No new requests; returns when the running and waiting ones have finished, or after `timeout`.
  // True when all finished.
  bool Drain(std::chrono::milliseconds timeout);

  // Ends the thread; what still runs finishes with kAborted.
  void Stop();

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace k3::runtime
