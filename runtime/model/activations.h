// The tensors a step works in, carved from one piece of the backend's memory at start. Each is as
// high as the largest step; Head() gives the rows in use.
#pragma once
#include <vector>

#include "kernels/backend.h"
#include "runtime/config/model_config.h"
#include "runtime/model/model.h"

namespace k3::runtime {

// The first rows of a tensor.
inline Tensor Head(Tensor tensor, int rows) {
  K3_CHECK(rows <= tensor.rows);
  tensor.rows = rows;
  return tensor;
}

struct Activations {
  std::vector<Tensor> residual;  // [blocks + 1] of [T, hidden]: snapshots B, then the running sum P
  Tensor x;                      // [T, hidden] input of a sublayer
  Tensor q, k, v, z, gate;       // [T, attention width] KDA; MLA uses q and gate
  Tensor f_a;                    // [T, head dim]
  Tensor beta;                   // [T, KDA heads]
  Tensor q_a, kv_a;              // [T, q_lora], [T, kv_lora + rope]
  Tensor mixed;                  // [T, attention width] output of an attention, gated
  Tensor ffn;                    // [T, dense or shared width]
  Tensor latent, routed;         // [T, latent width] input and output of the routed experts
  Tensor router;                 // F32 [T, experts]
  Tensor ids, weights;           // I32, F32 [T, top-k]
  Tensor expert_load;            // I32 [layers, experts] rows of the step, zero for dense layers
  Tensor head;                   // [logit rows, hidden]
  Tensor final_mix;              // [logit rows, hidden]
  Tensor logits;                 // F32 [logit rows, vocab]

  static Result<Activations> Create(const ModelConfig& config, const ModelOptions& options,
                                    kernels::Backend& backend);

  kernels::Memory memory;
};

}  // namespace k3::runtime
