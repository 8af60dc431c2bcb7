// The text model: 93 decoder layers of KDA or MLA attention and dense or latent-MoE feed-forward,
// joined by block attention residuals (architecture notes, section 2). It calls ops on tensors and
// never reads an element; what a row's numbers are is decided in kernels/.
//   1. A row's logits depend on its own context only (design section 6).
//   2. All memory is taken at Create(); Forward takes none.
#pragma once
#include <functional>
#include <memory>
#include <string_view>

#include "kernels/backend.h"
#include "kernels/batch_view.h"
#include "kernels/page_layout.h"
#include "runtime/config/model_config.h"
#include "runtime/weights/weights.h"

namespace k3::runtime {

struct ModelOptions {
  int max_rows = 0;        // of a step
  int max_logit_rows = 0;  // of a step
  int num_slots = 0;       // windows
};

// Called after an op with what it wrote, in the order of the forward: `layer` is 0-based, or the
// number of layers for the head. For `compare` and for tests; null in service.
using Tap = std::function<void(std::string_view op, int layer, ConstTensor value)>;

class Model {
 public:
  // `weights` and `backend` must outlive the model.
  static Result<std::unique_ptr<Model>> Create(const ModelConfig& config,
                                               const TextWeights& weights,
                                               kernels::Backend& backend,
                                               const kernels::PageLayout& layout,
                                               const ModelOptions& options);
  ~Model();

  // Runs one step over `pages`; the logits, F32 [batch.logit_rows, vocab], are good until the next.
  Tensor Forward(const kernels::BatchView& batch, std::byte* pages, const Tap& tap = {});

  // Rows that each expert of each layer had in the last step, I32 [layers, experts]; a dense layer
  // has none.
  ConstTensor ExpertLoad() const;

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace k3::runtime
