#include "runtime/weights/make/fill.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace k3::runtime {
namespace {

constexpr float kConstantChannel = 4.0F;
constexpr float kSuppressed = -32.0F;  // head weight on the constant channel
constexpr float kLogitDeviation = 2.5F;
// The end-of-message row is longer, so that about one greedy step in two hundred ends the turn.
constexpr float kStopGain = 1.4F;
constexpr int kFirstControlToken = 2560;  // of the embedded tokenizer
constexpr int kEndOfSequence = 2561;      // its [EOS], a stop beside the config's

std::uint64_t Mix(std::uint64_t value) {  // the finaliser of splitmix64
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

// A stream of 64-bit numbers addressed by index.
class Noise {
 public:
  Noise(std::uint64_t seed, std::string_view name) : key_(Mix(seed + kStep)) {
    for (const unsigned char byte : name) key_ = Mix(key_ ^ byte) + kStep;
  }
  std::uint64_t At(std::uint64_t index) const { return Mix(key_ + (index + 1) * kStep); }
  // In [0, 1).
  float Uniform(std::uint64_t index) const {
    return static_cast<float>(At(index) >> 40) * 0x1p-24F;
  }
  // Mean 0, deviation 1: the sum of four 16-bit numbers. Whole numbers and one product, so the
  // bits are the same on every machine.
  float Normal(std::uint64_t index) const {
    const std::uint64_t bits = At(index);
    const auto sum = static_cast<std::int64_t>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                               (bits >> 32 & 0xffff) + (bits >> 48));
    return static_cast<float>(sum - 2L * 65535) * (1.0F / 37837.2F);
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;
  std::uint64_t key_;
};

template <typename Stored, typename Value>
Filler Elements(Value value) {
  return [value](std::uint64_t first, std::uint64_t count, std::byte* out) {
    for (std::uint64_t i = 0; i < count; ++i) {
      Stored stored{};
      if constexpr (std::is_same_v<Stored, Bf16>) {
        stored = ToBf16(value(first + i));
      } else {
        stored = value(first + i);
      }
      std::memcpy(out + i * sizeof(Stored), &stored, sizeof(Stored));
    }
  };
}

std::uint64_t LastExtent(const PlannedTensor& tensor) {
  return static_cast<std::uint64_t>(tensor.shape.back());
}

float Deviation(const PlannedTensor& tensor, float gain) {
  return gain / std::sqrt(static_cast<float>(LastExtent(tensor)));
}

Filler Projection(const Noise& noise, const PlannedTensor& tensor, float gain) {
  const float deviation = Deviation(tensor, gain);
  return Elements<Bf16>([=](std::uint64_t i) { return noise.Normal(i) * deviation; });
}

// A projection into the residual stream: nothing for the constant channel.
Filler IntoResidual(const Noise& noise, const PlannedTensor& tensor, float gain) {
  const float deviation = Deviation(tensor, gain);
  const std::uint64_t first_row = LastExtent(tensor);
  return Elements<Bf16>(
      [=](std::uint64_t i) { return i < first_row ? 0.0F : noise.Normal(i) * deviation; });
}

Filler Embedding(const Noise& noise, const PlannedTensor& tensor) {
  const std::uint64_t hidden = LastExtent(tensor);
  return Elements<Bf16>(
      [=](std::uint64_t i) { return i % hidden == 0 ? kConstantChannel : noise.Normal(i); });
}

Filler Head(const Noise& noise, const PlannedTensor& tensor, const ModelConfig& config) {
  const std::uint64_t hidden = LastExtent(tensor);
  const float deviation = Deviation(tensor, kLogitDeviation);
  const std::vector<int> stops = config.eos_token_ids;
  const auto value = [=](std::uint64_t i) {
    const auto id = static_cast<int>(i / hidden);
    const bool constant_channel = i % hidden == 0;
    const float weight = constant_channel ? 0.0F : noise.Normal(i) * deviation;
    if (std::find(stops.begin(), stops.end(), id) != stops.end()) return weight * kStopGain;
    if (id < kFirstControlToken || id == kEndOfSequence) return weight;
    return constant_channel ? kSuppressed : weight * 0.02F;
  };
  return Elements<Bf16>(value);
}

struct Range {
  float from;
  float to;
};

Filler Floats(const Noise& noise, Range range, std::uint64_t used) {
  return Elements<float>([=](std::uint64_t i) {
    return i < used ? range.from + (range.to - range.from) * noise.Uniform(i) : 0.0F;
  });
}

Filler Norm(const Noise& noise) {
  return Elements<Bf16>([=](std::uint64_t i) { return 1.0F + 0.1F * noise.Normal(i); });
}

Filler PackedNibbles(const Noise& noise) {
  return [=](std::uint64_t first, std::uint64_t count, std::byte* out) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t index = first + i;
      out[i] = static_cast<std::byte>(noise.At(index / 8) >> (index % 8 * 8) & 0xff);
    }
  };
}

// Uniform E2M1 nibbles have a root mean square of 2.93; the nearest power of two makes that
// gain / sqrt(inputs), and groups differ by a factor of two either way.
Filler Scales(const Noise& noise, const PlannedTensor& tensor) {
  constexpr float kE2m1Rms = 2.926F;
  constexpr int kScaleBias = 127;
  const auto inputs = static_cast<float>(LastExtent(tensor) * kMxfp4Group);
  int exponent = 0;
  const float mantissa = std::frexp(1.0F / (std::sqrt(inputs) * kE2m1Rms), &exponent);
  const int base = kScaleBias + exponent - (mantissa < 0.7071F ? 1 : 0);
  constexpr std::array<int, 4> kSpread = {-1, 0, 0, 1};
  return Elements<std::uint8_t>(
      [=](std::uint64_t i) { return static_cast<std::uint8_t>(base + kSpread[noise.At(i) & 3]); });
}

Filler MatrixFiller(const Noise& noise, const PlannedTensor& tensor, const ModelConfig& config) {
  struct Gain {
    std::string_view suffix;
    float gain;
    bool into_residual;
  };
  // The first suffix that fits; all other projections keep their input's size.
  constexpr std::array<Gain, 8> kGains = {{
      {"res_proj.weight", 0.5F, false},            // AttnRes: sources mix almost evenly
      {"self_attn.v_proj.weight", 2.0F, false},    // against the 128^-0.5 of the KDA read
      {"self_attn.q_b_proj.weight", 1.5F, false},  // attention that prefers some tokens
      {"self_attn.o_proj.weight", 1.0F, true},
      {"block_sparse_moe.gate.weight", 1.5F, false},  // experts with a clear order
      {"mlp.down_proj.weight", 1.5F, true},
      {"shared_experts.down_proj.weight", 1.5F, true},
      {"routed_expert_up_proj.weight", 0.25F, true},  // a flipped choice stays small
  }};
  const std::string_view name = tensor.name;
  if (name.ends_with("embed_tokens.weight")) return Embedding(noise, tensor);
  if (name.ends_with("lm_head.weight")) return Head(noise, tensor, config);
  if (name.ends_with("weight_packed")) return PackedNibbles(noise);
  if (name.ends_with("weight_scale")) return Scales(noise, tensor);
  for (const Gain& gain : kGains) {
    if (!name.ends_with(gain.suffix)) continue;
    return gain.into_residual ? IntoResidual(noise, tensor, gain.gain)
                              : Projection(noise, tensor, gain.gain);
  }
  return Projection(noise, tensor, 1.0F);
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): the std::function returned owns it.
}

}  // namespace

Filler MakeFiller(const FillContext& context, const PlannedTensor& tensor) {
  const Noise noise(context.seed, tensor.name);
  const std::string_view name = tensor.name;
  const auto all = ~std::uint64_t{0};
  // A_log and dt_bias together spread the decay from about 0.999 to about 0.3 a token.
  if (name.ends_with("A_log")) {
    return Floats(noise, {-0.7F, 0.7F}, static_cast<std::uint64_t>(context.config->kda.num_heads));
  }
  if (name.ends_with("dt_bias")) return Floats(noise, {-8.0F, -1.0F}, all);
  if (name.ends_with("conv1d.weight")) return Floats(noise, {-0.8F, 0.8F}, all);
  if (name.ends_with("e_score_correction_bias")) return Floats(noise, {-0.05F, 0.05F}, all);
  if (name.ends_with("o_norm.weight")) return Floats(noise, {0.8F, 1.2F}, all);
  if (tensor.shape.size() == 1) return Norm(noise);
  return MatrixFiller(noise, tensor, *context.config);
}

}  // namespace k3::runtime
