// One request on its way through the scheduler. A state owns what it needs, so what a state lacks
// cannot leak from it: there is one release path, the variant's own.
#pragma once
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "cache/page_pool.h"
#include "runtime/schedule/request.h"
#include "runtime/schedule/sampler_state.h"
#include "runtime/schedule/slot_pool.h"

namespace k3::runtime {

// Everything a running sequence holds: its live KDA state, its latent blocks, its window.
struct Lease {
  cache::Pages state;   // private; S and conv tails at the last grid point
  cache::Pages blocks;  // private; latents, one page per 16 tokens
  SlotPool::Slot slot;
};

// What a preempted sequence has on the grid. It goes on from there, unless someone needs the pages
// first.
struct Kept {
  cache::Pages state;
  cache::Pages blocks;
  int computed = 0;  // multiple of 16: the state's position and 16 times the blocks
};

struct Waiting {
  std::optional<Kept> kept;
};
struct Prefilling {
  Lease lease;
  int computed = 0;  // tokens whose state and latents stand in the lease
};
struct Decoding {
  Lease lease;
  int computed = 0;
};
using SequenceState = std::variant<Waiting, Prefilling, Decoding>;

// Prompts with much left to compute yield to the others (scheduler.h, law 5).
enum class PromptClass : std::uint8_t { kShort, kLong };
inline constexpr int kNumPromptClasses = 2;

struct Sequence {
  RequestId id{};
  Request request;
  std::uint64_t arrival = 0;       // order of Add
  std::vector<Token> tokens;       // prompt, then what was generated
  int max_new_tokens = 0;          // resolved against the context and the pool
  bool length_is_context = false;  // max_new_tokens came from the context, not from the caller
  PromptClass prompt_class = PromptClass::kShort;
  SamplerState sampler;
  bool started = false;  // its Started was emitted
  bool paused = false;   // its reader is too far behind
  int preemptions = 0;
  int recomputed_tokens = 0;
  int planned_rows = 0;  // in the plan at hand
  int run = -1;          // its run there
  SequenceState state;

  int num_prompt() const { return static_cast<int>(request.prompt.size()); }
  int num_tokens() const { return static_cast<int>(tokens.size()); }
  int num_generated() const { return num_tokens() - num_prompt(); }
  bool waiting() const { return std::holds_alternative<Waiting>(state); }
  bool prefilling() const { return std::holds_alternative<Prefilling>(state); }
  bool decoding() const { return std::holds_alternative<Decoding>(state); }

  // Tokens that need not be computed (again).
  int computed() const {
    if (const auto* prefilling = std::get_if<Prefilling>(&state)) return prefilling->computed;
    if (const auto* decoding = std::get_if<Decoding>(&state)) return decoding->computed;
    const std::optional<Kept>& kept = std::get<Waiting>(state).kept;
    return kept ? kept->computed : 0;
  }
  int left() const { return num_tokens() - computed() - planned_rows; }

  // The order of service: by priority, then by age.
  bool Before(const Sequence& other) const {
    return std::pair(request.priority, arrival) < std::pair(other.request.priority, other.arrival);
  }
};

}  // namespace k3::runtime
