#include "runtime/model/activations.h"

#include <algorithm>

namespace k3::runtime {
namespace {

constexpr std::int64_t kAlign = 64;

// Hands out consecutive tensors; with a null base it only measures.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  Tensor Next(std::int64_t rows, std::int64_t cols, DType dtype) {
    Tensor tensor{base_ == nullptr ? nullptr : base_ + used_, dtype, rows, cols, cols};
    used_ += (rows * cols * SizeOf(dtype) + kAlign - 1) / kAlign * kAlign;
    return tensor;
  }
  std::int64_t used() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

void Carve(const ModelConfig& config, const ModelOptions& options, DType type, Carver& carver,
           Activations& out) {
  const std::int64_t rows = options.max_rows;
  const auto& mla = config.mla;
  const std::int64_t kda_width = config.kda.width();
  const std::int64_t q_width = std::int64_t{mla.num_heads} * mla.q_head_dim();
  const std::int64_t v_width = std::int64_t{mla.num_heads} * mla.v_head_dim;
  const int blocks =
      (config.num_hidden_layers + config.attn_res_block_size - 1) / config.attn_res_block_size;
  out.residual.clear();
  for (int i = 0; i <= blocks; ++i) {
    out.residual.push_back(carver.Next(rows, config.hidden_size, type));
  }
  out.x = carver.Next(rows, config.hidden_size, type);
  out.q = carver.Next(rows, std::max(kda_width, q_width), type);
  out.k = carver.Next(rows, kda_width, type);
  out.v = carver.Next(rows, kda_width, type);
  out.z = carver.Next(rows, kda_width, type);
  out.gate = carver.Next(rows, std::max(kda_width, v_width), type);
  out.f_a = carver.Next(rows, config.kda.head_dim, type);
  out.beta = carver.Next(rows, config.kda.num_heads, type);
  out.q_a = carver.Next(rows, mla.q_lora_rank, type);
  out.kv_a = carver.Next(rows, mla.latent_width(), type);
  out.mixed = carver.Next(rows, std::max(kda_width, v_width), type);
  out.ffn = carver.Next(rows, std::max(config.intermediate_size, config.moe.shared_width()), type);
  out.latent = carver.Next(rows, config.moe.routed_expert_hidden_size, type);
  out.routed = carver.Next(rows, config.moe.routed_expert_hidden_size, type);
  out.router = carver.Next(rows, config.moe.num_experts, DType::kF32);
  out.ids = carver.Next(rows, config.moe.num_experts_per_token, DType::kI32);
  out.weights = carver.Next(rows, config.moe.num_experts_per_token, DType::kF32);
  out.expert_load = carver.Next(config.num_hidden_layers, config.moe.num_experts, DType::kI32);
  out.head = carver.Next(options.max_logit_rows, config.hidden_size, type);
  out.final_mix = carver.Next(options.max_logit_rows, config.hidden_size, type);
  out.logits = carver.Next(options.max_logit_rows, config.vocab_size, DType::kF32);
}

}  // namespace

Result<Activations> Activations::Create(const ModelConfig& config, const ModelOptions& options,
                                        kernels::Backend& backend) {
  Activations activations;
  Carver measure(nullptr);
  Carve(config, options, backend.activation_dtype(), measure, activations);
  Result<kernels::Memory> memory = backend.Allocate(static_cast<std::size_t>(measure.used()));
  if (!memory.ok()) return memory.error();
  activations.memory = std::move(memory).value();
  Carver carver(activations.memory.data());
  Carve(config, options, backend.activation_dtype(), carver, activations);
  return activations;
}

}  // namespace k3::runtime
