// Drives a model step by step without engine or scheduler: contexts that hold pages, feeds that
// become runs of one plan, snapshots exported on the way. For goldens and for laws about bits.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/page_pool.h"
#include "runtime/model/model_executor.h"
#include "runtime/schedule/sequence.h"
#include "runtime/weights/checkpoint.h"

namespace k3::testing {

using runtime::PageId;
using runtime::Token;
using Row = std::vector<float>;  // one row of logits

// A KDA state and the latents below it, shared by whoever resumes from it.
struct Snapshot {
  cache::Pages state;
  std::vector<PageId> blocks;  // of the context it was taken from, which must live on
  int position = 0;
};

struct Context {
  cache::Pages state;
  cache::Pages blocks;
  runtime::SlotPool::Slot slot;
  std::vector<PageId> shared_blocks;  // of a snapshot, below `blocks`
  std::vector<PageId> source;         // where the state stands: the snapshot's, or its own
  int position = 0;
};

struct Feed {
  Context* context = nullptr;
  std::vector<Token> tokens;
  std::vector<Snapshot*> exports = {};  // positions are set; pages are taken by Step
  bool last_row_only = false;           // logits of the last row, as in service
};

struct ModelSetup {
  std::string backend = "cpu";  // "ref", "cpu"
  std::string isa = "";         // cpu: "" or a name; "avx512-emulated" for the emulated table
  int threads = 1;
  DType latents = DType::kF32;
  std::int64_t cache_bytes = std::int64_t{192} << 20;
  int max_model_len = 1024;
};

class Harness {
 public:
  static constexpr int kMaxRows = 512;
  static constexpr int kMaxContexts = 24;

  // Aborts when the checkpoint does not open: the caller looked.
  Harness(const std::string& checkpoint_dir, const ModelSetup& setup);
  ~Harness();

  const runtime::ModelConfig& config() const { return checkpoint_->config(); }
  const runtime::MemoryPlan& memory() const { return memory_; }

  Context NewContext();
  Context Resume(const Snapshot& snapshot);

  // One step of all feeds; the logits of the rows asked for, in the order fed.
  std::vector<Row> Step(std::vector<Feed> feeds, const runtime::Tap& tap = {});
  // The same for one context, cut into steps of the given sizes; the last size repeats.
  std::vector<Row> Run(Context& context, const std::vector<Token>& tokens,
                       const std::vector<int>& sizes);

  // Fills every page that nobody holds with NaN bits.
  void PoisonFreePages();
  const std::byte* page(PageId id) const;

 private:
  std::vector<PageId> TakeInto(cache::Pages& pages, int count);

  std::optional<runtime::Checkpoint> checkpoint_;
  runtime::MemoryPlan memory_;
  std::unique_ptr<runtime::ModelExecutor> executor_;
  std::unique_ptr<cache::PagePool> pool_;
  runtime::SlotPool slots_{kMaxContexts};
  std::vector<PageId> zero_;  // taken since the last step
};

// Largest logit, ties to the lowest id.
Token Argmax(const Row& row);

}  // namespace k3::testing
