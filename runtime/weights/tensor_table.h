// The one list of the text model's tensors: names, dtypes and shapes as released, in the order of
// the files (architecture notes 3.1 and 3.2). The loader binds by it, k3-make-model writes by it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/model_config.h"
#include "runtime/weights/weights.h"

namespace k3::runtime {

enum class ShapeRule : std::uint8_t {
  kVector,  // [cols]
  kMatrix,  // [rows, cols]
  kConv,    // [rows, cols] or [rows, 1, cols]: the same bytes
  kPadded,  // [n] with n >= cols; what lies beyond is padding
};

struct TensorSpec {
  std::string name;
  DType dtype;
  ShapeRule rule;
  std::int64_t rows;  // of the view; 1 for vectors
  std::int64_t cols;
  int shard;          // the decoder layer, or num_hidden_layers for what lies outside of them
  ConstTensor* slot;  // where the view goes; lives in the BoundWeights given to ListTextTensors
};

// The stored halves of one AttnRes mixer, of which the model only needs the product.
struct MixerSource {
  ConstTensor norm;
  ConstTensor proj;
};

struct LayerMixerSources {
  MixerSource attention;
  MixerSource mlp;
};

// All slots of a model. Not movable while specs point into it.
struct BoundWeights {
  TextWeights text;
  std::vector<LayerMixerSources> layer_mixers;
  MixerSource output_mixer;
};

// Sizes `weights` for the config, all views still empty, and lists one spec for each slot.
std::vector<TensorSpec> ListTextTensors(const ModelConfig& config, BoundWeights& weights);

// Vision tensors are known to the release and not to us: they are passed over, in any file.
bool IsVisionTensor(std::string_view name);

}  // namespace k3::runtime
