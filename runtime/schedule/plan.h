// What one step does, decided; and what came of it. Plain data: ids, lengths, tokens. Spans point
// into the scheduler's sequences and are good until Advance().
#pragma once
#include <array>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "cache/types.h"
#include "kernels/sample/sample.h"
#include "runtime/schedule/request.h"

namespace k3::runtime {

using cache::PageId;

// How to choose the token that follows a run's last row. Points into the sequence, as spans do.
struct SampleSpec {
  const SamplingOptions* options = nullptr;
  int position = 0;                           // of the token being chosen
  std::span<const kernels::LogitEdit> edits;  // bias and penalties
  std::span<const Token> banned;              // stop ids before min_new_tokens
  std::span<const std::uint32_t> mask;        // [ceil(V / 32)] bit 1 = allowed; empty: all
};

// Consecutive positions of one sequence: a prefill chunk or a decode row.
struct PlanRun {
  RequestId sequence{};
  int slot = 0;      // its window, 0..max_num_seqs-1
  int position = 0;  // of tokens[0]; the sequence's computed length so far
  std::span<const Token> tokens;
  std::span<const PageId> latent_pages;  // at least one per block up to the run's last row
  std::span<const PageId> state_source;  // KDA state at the last grid point <= position
  std::span<const PageId> state_target;  // where the grid points of this run are folded
  int logit_rows = 0;                    // how many of its last rows want logits
  std::optional<SampleSpec> sample;  // choose a token from the last row's; needs logit_rows >= 1
};

// A snapshot on the way: when run `run` of the plan passes grid position `position`, the KDA state
// is also written to `pages`. A chunk is never cut for one.
struct PlanExport {
  int run = 0;
  int position = 0;  // multiple of 16
  std::span<const PageId> pages;
};

struct Plan {
  std::vector<PageId> zero;  // pages taken since the last step, to be zeroed before it
  std::vector<PlanRun> runs;
  std::vector<PlanExport> exports;
  bool empty() const { return runs.empty(); }
  int num_rows() const {
    std::size_t rows = 0;
    for (const PlanRun& run : runs) rows += run.tokens.size();
    return static_cast<int>(rows);
  }
};

// What a step did to the experts of a MoE layer group, for metrics.
struct ExpertLoad {
  std::int64_t tokens = 0;  // (row, slot) pairs
  double imbalance = 0;     // max over mean of a layer's experts, mean over layers; 0: none ran
  double active = 0;        // distinct experts of a layer that had a row, mean over layers
};
inline constexpr int kExpertLayerGroups = 4;  // quarters of the depth

// One entry per run of the plan, in its order; empty where no token was asked for. An id of -1 says
// that the logits were not finite.
struct StepResult {
  std::vector<std::optional<NewToken>> tokens;
  std::array<ExpertLoad, kExpertLayerGroups> experts{};
};
inline constexpr Token kDamagedToken = -1;

// What a step means to one request. A Finished's timings are the engine's to fill in.
struct Emission {
  RequestId request{};
  std::variant<Started, NewToken, Finished> what;
};

// Runs plans. The real one drives a model; the fake one of the tests checks the plan itself.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual StepResult Run(const Plan& plan) = 0;
};

}  // namespace k3::runtime
