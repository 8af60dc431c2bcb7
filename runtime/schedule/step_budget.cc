#include "runtime/schedule/step_budget.h"

#include <algorithm>

#include "cache/types.h"
#include "kernels/base/check.h"

namespace k3::runtime {
namespace {

constexpr double kNewest = 0.2;  // weight of the newest step in a mean
constexpr double kMargin = 0.8;  // of the target: steps vary
constexpr int kFirstRows = 64;   // beside decoding ones, before anything was seen

void Blend(double& mean, double value) {
  mean = mean == 0 ? value : mean + kNewest * (value - mean);
}

}  // namespace

StepBudget::StepBudget(double target_seconds, int max_rows)
    : target_seconds_(target_seconds), max_rows_(max_rows) {
  K3_CHECK(max_rows >= 1);
}

int StepBudget::PrefillRows(bool decoding) const {
  if (!decoding || target_seconds_ <= 0) return max_rows_;
  const int least = std::min(cache::kBlockTokens, max_rows_);
  if (row_seconds_ <= 0) return std::min(kFirstRows, max_rows_);
  const double room = (target_seconds_ * kMargin - decode_seconds_) / row_seconds_;
  if (room >= max_rows_) return max_rows_;
  // Whole chunks of the grid: a ragged one costs as much.
  const int rows = static_cast<int>(std::max(room, 0.0)) / cache::kBlockTokens;
  return std::clamp(rows * cache::kBlockTokens, least, max_rows_);
}

void StepBudget::Observe(int prefill_rows, int decode_rows, double seconds) {
  if (prefill_rows == 0) return Blend(decode_seconds_, seconds);
  const double decode = decode_rows > 0 ? decode_seconds_ : 0;
  // Never below a tenth: a step that was faster than its decodes alone says little about its rows.
  Blend(row_seconds_, std::max(seconds - decode, seconds / 10) / prefill_rows);
}

}  // namespace k3::runtime
