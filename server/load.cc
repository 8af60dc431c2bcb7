#include "server/load.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <utility>
#include <vector>

#include "runtime/text/stop_ids.h"
#include "server/exit_codes.h"

namespace k3::server {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
// Opening reads headers only; with --warmup, reading everything is nearly all of the work.
constexpr double kOpeningShareWithWarmup = 0.05;
constexpr double kLoadShare = 0.95;  // the rest is the engine's start
constexpr double kLogStep = 0.05;
constexpr std::chrono::seconds kLogInterval{10};

using Clock = std::chrono::steady_clock;

// A line per 5 % or per 10 s, whichever comes first, and none for a load that takes no time.
class ProgressLog {
 public:
  explicit ProgressLog(Lifecycle& lifecycle) : lifecycle_(lifecycle) {}

  runtime::ProgressCallback Part(LoadStage stage, double from, double to) {
    return [this, stage, from, to](const runtime::LoadProgress& progress) {
      const double total = from + (to - from) * progress.fraction;
      lifecycle_.SetProgress(stage, total);
      Log(stage, total, progress);
    };
  }

 private:
  void Log(LoadStage stage, double total, const runtime::LoadProgress& progress) {
    const Clock::time_point now = Clock::now();
    if (now - begin_ < std::chrono::seconds(1)) return;
    if (total - last_ < kLogStep && now - last_time_ < kLogInterval) return;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    const double done = static_cast<double>(progress.bytes_done) / kGiB;
    spdlog::info("loading: {} {:.0f} %, {:.1f} of {:.1f} GiB, {:.2f} GiB/s, {:.0f} s to go",
                 NameOf(stage), total * 100, done, static_cast<double>(progress.bytes_total) / kGiB,
                 done / seconds, total > 0 ? seconds / total - seconds : 0);
    last_ = total;
    last_time_ = now;
  }

  Lifecycle& lifecycle_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_time_ = begin_;
  double last_ = 0;
};

struct TextParts {
  runtime::Tokenizer tokenizer;
  std::vector<std::int32_t> eos_ids;
};

Result<TextParts> LoadText(const std::string& dir) {
  Result<runtime::Tokenizer> tokenizer = runtime::Tokenizer::Load(dir);
  if (!tokenizer.ok()) return tokenizer.error();
  Result<std::vector<std::int32_t>> eos = runtime::LoadStopIds(dir, tokenizer.value().vocabulary());
  if (!eos.ok()) return eos.error();
  return TextParts{std::move(tokenizer).value(), std::move(eos).value()};
}

ModelFacts FactsOf(const Flags& flags, const runtime::Checkpoint& checkpoint,
                   std::vector<std::int32_t> eos_ids) {
  ModelFacts facts;
  facts.names = flags.names;
  facts.fingerprint = checkpoint.fingerprint();
  facts.weights_bytes = checkpoint.total_bytes();
  facts.num_layers = checkpoint.config().num_hidden_layers;
  facts.max_position_embeddings = checkpoint.config().max_position_embeddings;
  facts.kv_cache_dtype = flags.engine.latent_dtype == DType::kF32 ? "fp32" : "bf16";
  facts.eos_ids = std::move(eos_ids);
  return facts;
}

// How many sequences of which length the page pool holds at once.
void LogCapacity(const runtime::EngineInfo& info) {
  constexpr int kShortest = 1024, kFactor = 4;
  const auto told = [&info](int tokens) {
    const int pages = info.layout.state_pages + cache::BlocksFor(tokens);
    spdlog::info("capacity    {:>8} tokens: {:>6} sequences in the pool, {:>4} of them run at once",
                 tokens, info.pages / pages, std::min(info.pages / pages, info.max_num_seqs));
  };
  for (int tokens = kShortest; tokens < info.max_model_len; tokens *= kFactor) told(tokens);
  told(info.max_model_len);
}

void LogSummary(const ServedModel& model) {
  const runtime::EngineInfo& info = model.engine->info();
  const ModelFacts& facts = model.facts;
  const double page_mib = static_cast<double>(info.layout.page_bytes) / (1 << 20);
  spdlog::info("model       {} ({} layers, vocabulary {})", facts.names.front(), facts.num_layers,
               info.vocab_size);
  spdlog::info("weights     {:.2f} GiB, fingerprint {}",
               static_cast<double>(facts.weights_bytes) / kGiB, facts.fingerprint);
  spdlog::info("device      {} {}, {} threads", info.device, info.isa, info.threads);
  spdlog::info("page pool   {} pages of {:.3f} MiB = {:.2f} GiB; a sequence's state takes {}",
               info.pages, page_mib, info.pages * page_mib / 1024, info.layout.state_pages);
  LogCapacity(info);
}

}  // namespace

std::variant<std::unique_ptr<ServedModel>, LoadFailure> LoadModel(const Flags& flags,
                                                                  Lifecycle& lifecycle) {
  ProgressLog log(lifecycle);
  std::error_code unreadable;
  if (!std::filesystem::is_directory(flags.model, unreadable)) {
    return LoadFailure{kExitBadModel, fmt::format("{}: no such folder", flags.model)};
  }
  const double opened = flags.warmup ? kOpeningShareWithWarmup : kLoadShare;
  Result<runtime::Checkpoint> checkpoint = runtime::Checkpoint::Open(
      flags.model, {.progress = log.Part(LoadStage::kWeights, 0, opened)});
  lifecycle.SetProgress(LoadStage::kTokenizer, opened);
  Result<TextParts> text = LoadText(flags.model);
  // Both are looked at before either is complained about.
  if (!checkpoint.ok() || !text.ok()) {
    std::string faults = checkpoint.ok() ? "" : checkpoint.error().message;
    if (!text.ok()) faults += (faults.empty() ? "" : "\n") + text.error().message;
    return LoadFailure{kExitBadModel, faults};
  }
  if (flags.warmup) {
    const Result<Ok> warm =
        checkpoint.value().Warmup(log.Part(LoadStage::kWarmup, opened, kLoadShare));
    if (!warm.ok()) return LoadFailure{kExitBadModel, warm.error().message};
  }
  lifecycle.SetProgress(LoadStage::kEngine, kLoadShare);
  ModelFacts facts = FactsOf(flags, checkpoint.value(), std::move(text.value().eos_ids));
  runtime::EngineOptions options = flags.engine;
  options.vocab_limit =
      std::min(checkpoint.value().config().vocab_size, text.value().tokenizer.vocabulary().size());
  auto engine = runtime::Engine::Create(options, std::move(checkpoint).value());
  if (!engine.ok()) {
    // Flags that contradict each other or the model show only here.
    const bool flags_wrong = engine.error().code == Code::kInvalidArgument;
    return LoadFailure{flags_wrong ? kExitUsage : kExitCannotStart, engine.error().message};
  }
  auto model =
      std::make_unique<ServedModel>(ServedModel{std::move(facts), std::move(text.value().tokenizer),
                                                MakeEngineClient(std::move(engine).value())});
  LogSummary(*model);
  return model;
}

}  // namespace k3::server
