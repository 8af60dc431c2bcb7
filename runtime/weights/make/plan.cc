#include "runtime/weights/make/plan.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "runtime/weights/safetensors.h"

namespace k3::runtime {
namespace {

using Shards = std::vector<std::vector<PlannedTensor>>;

std::vector<std::int64_t> StoredShape(const TensorSpec& spec, const Layout& layout) {
  switch (spec.rule) {
    case ShapeRule::kVector:
      return {spec.cols};
    case ShapeRule::kMatrix:
      return {spec.rows, spec.cols};
    case ShapeRule::kConv:
      return layout.conv_rank3 ? std::vector{spec.rows, std::int64_t{1}, spec.cols}
                               : std::vector{spec.rows, spec.cols};
    case ShapeRule::kPadded:
      return {std::max<std::int64_t>(spec.cols, layout.min_a_log)};
  }
  return {};
}

Shards TextShards(const ModelConfig& config, const Layout& layout) {
  BoundWeights unused;
  const std::vector<TensorSpec> specs = ListTextTensors(config, unused);
  Shards shards(layout.sharded ? static_cast<std::size_t>(config.num_hidden_layers) + 1 : 1);
  for (const TensorSpec& spec : specs) {
    auto& shard = shards[layout.sharded ? static_cast<std::size_t>(spec.shard) : 0];
    shard.push_back({spec.name, spec.dtype, StoredShape(spec, layout)});
  }
  return shards;
}

void PlaceTensors(PlannedFile& file) {
  for (PlannedTensor& tensor : file.tensors) {
    std::int64_t bytes = SizeOf(tensor.dtype);
    for (const std::int64_t extent : tensor.shape) bytes *= extent;
    tensor.begin = file.data_bytes;
    tensor.end = tensor.begin + static_cast<std::uint64_t>(bytes);
    file.data_bytes = tensor.end;
  }
}

std::string Compact(const std::vector<std::int64_t>& shape) {
  std::string text = ShapeText(shape);
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  return text;
}

// The header is padded with spaces so that the data area begins at a multiple of 8, as the
// released files have it.
std::string HeadOf(const std::vector<PlannedTensor>& tensors) {
  constexpr std::size_t kLengthBytes = 8;
  std::string json = R"({"__metadata__":{"format":"pt"})";
  for (const PlannedTensor& tensor : tensors) {
    json += ",\"" + tensor.name + "\":{\"dtype\":\"" + NameOf(tensor.dtype) +
            "\",\"shape\":" + Compact(tensor.shape) + ",\"data_offsets\":[" +
            std::to_string(tensor.begin) + "," + std::to_string(tensor.end) + "]}";
  }
  json += "}";
  json.resize((json.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::string head;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    head += static_cast<char>((json.size() >> (8 * i)) & 0xff);
  }
  return head + json;
}

// Five digits "of" six, as released.
std::string ShardName(std::size_t number, std::size_t count) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%06zu.safetensors", number, count);
  return name.data();
}

// Names of tensors and files need no escaping in JSON.
std::string IndexJson(const CheckpointPlan& plan) {
  std::string json =
      "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(plan.total_bytes) +
      "\n  },\n  \"weight_map\": {";
  const char* separator = "\n";
  for (const PlannedFile& file : plan.files) {
    for (const PlannedTensor& tensor : file.tensors) {
      json += separator;
      json += "    \"" + tensor.name + "\": \"" + file.name + "\"";
      separator = ",\n";
    }
  }
  return json + "\n  }\n}\n";
}

}  // namespace

CheckpointPlan PlanCheckpoint(const ModelConfig& config, const Layout& layout,
                              std::vector<std::vector<PlannedTensor>> more_shards) {
  K3_CHECK(layout.sharded || more_shards.empty());
  Shards shards = TextShards(config, layout);
  for (auto& shard : more_shards) shards.push_back(std::move(shard));
  CheckpointPlan plan;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    PlannedFile file;
    file.name = layout.sharded ? ShardName(i + 1, shards.size()) : "model.safetensors";
    file.tensors = std::move(shards[i]);
    PlaceTensors(file);
    file.head = HeadOf(file.tensors);
    plan.total_bytes += file.data_bytes;
    plan.num_tensors += file.tensors.size();
    plan.files.push_back(std::move(file));
  }
  if (layout.sharded) plan.index_json = IndexJson(plan);
  return plan;
}

}  // namespace k3::runtime
