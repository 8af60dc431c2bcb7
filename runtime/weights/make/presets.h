// The shapes we can make by name, as config.json of the released layout.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace k3::runtime {

// What a released file leaves open: the same tensors may be laid out in more than one way.
struct Layout {
  bool sharded = true;     // one shard a layer and an index, else model.safetensors alone
  bool conv_rank3 = true;  // [C, 1, 4], else [C, 4]
  int min_a_log = 128;     // A_log is padded with zeros to this length
};

struct Preset {
  std::string name;
  std::string config_json;
  Layout layout;
};

// nano, micro: the shapes of the golden checkpoints; bench: 0.9 GB; k3: the release itself, for
// descriptions and sparse files (nobody fills 1.56 TB with noise).
std::optional<Preset> FindPreset(std::string_view name);
std::vector<std::string> PresetNames();

}  // namespace k3::runtime
