// Where every tensor of a checkpoint goes: the files, their headers and the index, before a byte
// of weights exists. Writing and the sparse test both start from this.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/model_config.h"
#include "runtime/weights/make/presets.h"
#include "runtime/weights/tensor_table.h"

namespace k3::runtime {

struct PlannedTensor {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;  // as stored
  std::uint64_t begin = 0;          // relative to the data area; set by PlanCheckpoint
  std::uint64_t end = 0;

  std::uint64_t bytes() const { return end - begin; }
};

struct PlannedFile {
  std::string name;
  std::string head;  // length prefix and header, ready to write
  std::vector<PlannedTensor> tensors;
  std::uint64_t data_bytes = 0;
};

struct CheckpointPlan {
  std::vector<PlannedFile> files;
  std::string index_json;  // empty for a single file
  std::uint64_t total_bytes = 0;
  std::size_t num_tensors = 0;
};

// `more_shards` follow the text model's (the release has two for vision); only when sharded.
CheckpointPlan PlanCheckpoint(const ModelConfig& config, const Layout& layout,
                              std::vector<std::vector<PlannedTensor>> more_shards = {});

}  // namespace k3::runtime
