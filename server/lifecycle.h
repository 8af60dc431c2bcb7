// Where the process stands: loading, ready, draining, failed. One writer (main and its loader, in
// turn); any thread may read, and nobody ever waits.
//   1. The model is visible from Ready on, and stays so while the Lifecycle lives.
#pragma once
#include <atomic>
#include <optional>
#include <string>

#include "server/api_error.h"
#include "server/served_model.h"

namespace k3::server {

enum class Phase : std::uint8_t { kLoading, kReady, kDraining, kFailed };
inline constexpr int kNumPhases = 4;
const char* NameOf(Phase phase);

// What loading does, in this order.
enum class LoadStage : std::uint8_t { kWeights, kTokenizer, kWarmup, kEngine };
const char* NameOf(LoadStage stage);

class Lifecycle {
 public:
  void SetProgress(LoadStage stage, double fraction);  // of the whole load, 0..1
  void Ready(const ServedModel* model);
  void Drain();  // for good
  void Fail();

  Phase phase() const { return phase_.load(); }
  double progress() const { return progress_.load(std::memory_order_relaxed); }
  LoadStage stage() const { return stage_.load(std::memory_order_relaxed); }
  const ServedModel* model() const { return model_.load(); }

  // Why no new work is taken now; nothing when it is.
  std::optional<ApiError> Refusal() const;

 private:
  std::atomic<Phase> phase_{Phase::kLoading};
  std::atomic<LoadStage> stage_{LoadStage::kWeights};
  std::atomic<double> progress_{0};
  std::atomic<const ServedModel*> model_{nullptr};
};

}  // namespace k3::server
