#include "runtime/schedule/fake_executor.h"

#include <algorithm>
#include <bit>

#include "kernels/base/check.h"

namespace k3::runtime {
namespace {

using cache::kBlockTokens;

std::uint64_t Mix(std::uint64_t hash, Token token) {
  std::uint64_t z = hash + 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(token);
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

std::uint64_t HashOf(std::span<const Token> tokens, std::uint64_t hash = 0) {
  for (const Token token : tokens) hash = Mix(hash, token);
  return hash;
}

// What one edit does, whatever the order of edits.
std::uint64_t HashOf(const kernels::LogitEdit& edit) {
  std::uint64_t hash = Mix(7, edit.id);
  for (const float part : {edit.bias, edit.repetition, edit.minus}) {
    hash = Mix(hash, std::bit_cast<std::int32_t>(part));
  }
  return hash;
}

bool Allowed(const SampleSpec& spec, Token token) {
  if (std::find(spec.banned.begin(), spec.banned.end(), token) != spec.banned.end()) return false;
  const auto word = static_cast<std::size_t>(token / 32);
  return spec.mask.empty() || ((spec.mask[word] >> (static_cast<unsigned>(token) % 32U)) & 1U) != 0;
}

// The edits and the ban from their definitions, from scratch.
struct Definition {
  std::vector<kernels::LogitEdit> edits;
  std::vector<Token> banned;
  std::vector<std::uint32_t> mask;

  Definition(const Request& request, std::span<const Token> tokens, int vocabulary) {
    const SamplingOptions& options = request.sampling;
    const auto generated = tokens.subspan(request.prompt.size());
    for (Token id = 0; id < vocabulary; ++id) {
      kernels::LogitEdit edit{.id = id};
      for (const LogitBias& bias : options.logit_bias) {
        if (bias.id == id) edit.bias = bias.bias;
      }
      const auto count = std::count(generated.begin(), generated.end(), id);
      if (std::find(tokens.begin(), tokens.end(), id) != tokens.end()) {
        edit.repetition = options.repetition_penalty;
      }
      if (count > 0) {
        edit.minus =
            options.presence_penalty + options.frequency_penalty * static_cast<float>(count);
      }
      if (edit.bias != 0 || edit.repetition != 1 || edit.minus != 0) edits.push_back(edit);
    }
    if (static_cast<int>(generated.size()) < request.min_new_tokens) {
      banned = request.stop_ids;
      banned.insert(banned.end(), request.eos_ids.begin(), request.eos_ids.end());
    }
    if (!options.allowed_ids.empty()) mask.resize(static_cast<std::size_t>(vocabulary) / 32 + 1);
    for (const Token id : options.allowed_ids) {
      mask[static_cast<std::size_t>(id / 32)] |= 1U << (static_cast<unsigned>(id) % 32U);
    }
  }
};

}  // namespace

FakeExecutor::FakeExecutor(int num_pages, int num_slots, int vocabulary, int nan_every)
    : pages_(static_cast<std::size_t>(num_pages)),
      windows_(static_cast<std::size_t>(num_slots)),
      vocabulary_(vocabulary),
      nan_every_(nan_every) {}

FakeExecutor::Page& FakeExecutor::At(PageId id) {
  const auto index = static_cast<std::size_t>(id);
  K3_CHECK(index < pages_.size());
  return pages_[index];
}

Token FakeExecutor::Choose(std::span<const Token> tokens, const SampleSpec& spec) const {
  std::uint64_t hash = HashOf(tokens) + spec.options->seed;
  if (nan_every_ > 0 && hash % static_cast<std::uint64_t>(nan_every_) == 0) return kDamagedToken;
  hash = Mix(hash, static_cast<Token>(spec.options->choice));
  for (const kernels::LogitEdit& edit : spec.edits) {
    const bool changes = edit.bias != 0 || edit.repetition != 1 || edit.minus != 0;
    if (changes) hash += HashOf(edit);
  }
  const auto first = static_cast<Token>((hash >> 8U) % static_cast<std::uint64_t>(vocabulary_));
  for (int i = 0; i < vocabulary_; ++i) {
    const Token token = (first + i) % vocabulary_;
    if (Allowed(spec, token)) return token;
  }
  return kDamagedToken;
}

Outcome FakeExecutor::Alone(const Request& request, int max_model_len) const {
  Outcome outcome;
  std::vector<Token> tokens = request.prompt;
  const int room = max_model_len - static_cast<int>(tokens.size());
  const bool context = request.max_new_tokens.value_or(room + 1) > room;
  const int limit = context ? room : *request.max_new_tokens;
  const auto in = [](const std::vector<Token>& ids, Token token) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  for (;;) {
    const Definition definition(request, tokens, vocabulary_);
    const Token token = Choose(tokens, {.options = &request.sampling,
                                        .position = static_cast<int>(tokens.size()),
                                        .edits = definition.edits,
                                        .banned = definition.banned,
                                        .mask = definition.mask});
    Finished end;
    if (token == kDamagedToken) {
      end.reason = FinishReason::kError;
    } else if (in(request.eos_ids, token)) {
      end.reason = FinishReason::kStopEos;
    } else if (in(request.stop_ids, token)) {
      end.reason = FinishReason::kStopToken;
    } else {
      tokens.push_back(token);
      outcome.tokens.push_back(token);
      if (static_cast<int>(outcome.tokens.size()) < limit) continue;
      end.reason = context ? FinishReason::kLengthContext : FinishReason::kLengthMaxTokens;
    }
    outcome.finished = end;
    return outcome;
  }
}

StepResult FakeExecutor::Run(const Plan& plan) {
  for (const PageId id : plan.zero) At(id) = {.clean = true};
  StepResult result;
  for (const PlanRun& run : plan.runs) {
    for (int i = 0; i < static_cast<int>(run.tokens.size()); ++i) Step(run, i);
    std::optional<NewToken> token;
    if (run.sample) {
      K3_CHECK(run.logit_rows == 1);
      std::vector<Token> read;
      const int length = run.position + static_cast<int>(run.tokens.size());
      for (int p = 0; p < length; ++p) {
        const Page& page = At(run.latent_pages[static_cast<std::size_t>(p / kBlockTokens)]);
        read.push_back(page.latents[static_cast<std::size_t>(p % kBlockTokens)]);
      }
      K3_CHECK(run.sample->position == length);
      token = NewToken{.id = Choose(read, *run.sample), .logprobs = {}};
    }
    result.tokens.push_back(token);
  }
  return result;
}

void FakeExecutor::Write(PageId id, int row, Token token) {
  Page& page = At(id);
  if (row == 0) K3_CHECK(page.clean);  // a block begins on a page zeroed for it
  K3_CHECK(static_cast<int>(page.latents.size()) == row);
  page.latents.push_back(token);
  page.clean = false;
}

void FakeExecutor::Step(const PlanRun& run, int offset) {
  const int position = run.position + offset;
  const Token token = run.tokens[static_cast<std::size_t>(offset)];
  const auto block = static_cast<std::size_t>(position / kBlockTokens);
  K3_CHECK(block < run.latent_pages.size());
  Write(run.latent_pages[block], position % kBlockTokens, token);

  std::vector<Token>& window = windows_[static_cast<std::size_t>(run.slot)];
  if (position % kBlockTokens == 0) window.clear();
  K3_CHECK(static_cast<int>(window.size()) == position % kBlockTokens);
  window.push_back(token);
  const int grid = position / kBlockTokens * kBlockTokens;
  for (std::size_t i = 0; i < run.state_source.size(); ++i) {
    // A run folds its first grid point from the source, later ones from its own target.
    const bool first = run.position / kBlockTokens == position / kBlockTokens;
    const Page before = At(first ? run.state_source[i] : run.state_target[i]);
    K3_CHECK(before.state_position == grid);
    if (static_cast<int>(window.size()) < kBlockTokens) continue;
    Page& after = At(run.state_target[i]);
    after.state_hash = HashOf(window, before.state_hash);
    after.state_position = grid + kBlockTokens;
    after.clean = false;
  }
}

}  // namespace k3::runtime
