// An opened checkpoint: config, typed views of the mapped weights, and the numbers derived from
// them once. Opening reads headers and samples only, so that 1.56 TB open on a small machine.
//   1. Opened means complete: every tensor of the text model is there, in the right shape, dtype
//      and place; all faults are reported together (FaultList).
//   2. Views stay valid while the Checkpoint lives, also when it moves.
//   3. Vision tensors are passed over; a shard that holds nothing else need not even exist.
//   4. A scale byte of 255 (NaN) is refused: all are looked at when they have at most
//      kFullScaleCheckBytes together, else one expert per layer is sampled here and Warmup looks
//      at the rest. Reading 90 GB of scales at every start would be no opening.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/result.h"
#include "runtime/config/model_config.h"
#include "runtime/weights/mapped_file.h"
#include "runtime/weights/weights.h"

namespace k3::runtime {

struct LoadProgress {
  double fraction;          // 0..1
  std::int64_t bytes_done;  // of the files; while opening, those whose headers were read
  std::int64_t bytes_total;
  std::string_view file;  // being worked on; "" at the end
};
using ProgressCallback = std::function<void(const LoadProgress&)>;

struct OpenOptions {
  ProgressCallback progress;  // may be empty; called on the calling thread
};

class Checkpoint {
 public:
  static constexpr std::int64_t kFullScaleCheckBytes = 64 << 20;

  static Result<Checkpoint> Open(const std::string& dir, const OpenOptions& options);

  const ModelConfig& config() const { return config_; }
  const TextWeights& weights() const { return weights_; }
  // 32 hex digits: config.json, every header, and 64 samples of 4 KiB of every text shard.
  const std::string& fingerprint() const { return fingerprint_; }
  std::int64_t total_bytes() const { return total_bytes_; }  // of the text model's tensors
  std::int64_t num_tensors() const { return num_tensors_; }
  const std::string& dir() const { return dir_; }

  // Reads every page once, so that the first requests do not wait for the disk, and every scale.
  Result<Ok> Warmup(const ProgressCallback& progress) const;

 private:
  friend class CheckpointOpener;
  Checkpoint() = default;

  std::string dir_;
  ModelConfig config_{};
  std::vector<MappedFile> files_;
  std::vector<float> derived_;  // what MixerWeights point into
  TextWeights weights_;
  std::vector<std::span<const std::uint8_t>> scales_;  // sorted by address
  std::string fingerprint_;
  std::int64_t total_bytes_ = 0;
  std::int64_t num_tensors_ = 0;
};

}  // namespace k3::runtime
