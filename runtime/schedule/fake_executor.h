// An executor without a model, for laws: a "latent" is the token itself, a "state" is a hash of all
// tokens up to its grid point, a window the tokens since. It checks every plan against what the
// pages really hold, and the token it samples is a hash of the sequence as read back from there and
// of all it was told about sampling: so a wrong page, slot, position, penalty or missing zeroing
// changes the output or aborts.
#pragma once
#include <optional>
#include <vector>

#include "runtime/schedule/plan.h"

namespace k3::runtime {

struct Outcome {
  std::vector<Token> tokens;
  std::optional<Finished> finished;
  int started = 0;
};

class FakeExecutor final : public Executor {
 public:
  // Tokens are below `vocabulary`; every `nan_every`-th hash answers kDamagedToken (0: never).
  FakeExecutor(int num_pages, int num_slots, int vocabulary, int nan_every = 0);

  StepResult Run(const Plan& plan) override;

  // What the request gets when nothing else runs: from the definition, without a scheduler.
  Outcome Alone(const Request& request, int max_model_len) const;

 private:
  struct Page {
    bool clean = false;          // zeroed and not written since
    std::vector<Token> latents;  // a block's rows, as far as written
    std::uint64_t state_hash = 0;
    int state_position = 0;
  };
  Page& At(PageId id);
  void Write(PageId id, int row, Token token);
  void Step(const PlanRun& run, int offset);
  Token Choose(std::span<const Token> tokens, const SampleSpec& spec) const;

  std::vector<Page> pages_;
  std::vector<std::vector<Token>> windows_;  // rows since the grid, by slot
  int vocabulary_;
  int nan_every_;
};

}  // namespace k3::runtime
