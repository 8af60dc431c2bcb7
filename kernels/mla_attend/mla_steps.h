// The steps of mla_attend on the CPU, private to it: apart, so that a test can hold each against
// outside numbers. Sixteen (row, head) pairs of one run are the lanes of a vector, so scores,
// maxima and sums need no reduction across lanes, and a latent row is loaded once for all of them:
//   score[s][p]  = scale * (one fma chain over the width, ascending)
//   value[p][c]  = one fma chain over s, ascending, of e^(score - max of the split) * row_s[c]
// A lane's bits do not depend on the other lanes; which pairs share a tile is free.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/base/tensor.h"
#include "kernels/page_layout.h"

namespace k3::kernels {

inline constexpr int kMlaPairs = 16;
// Rows of context per split. Part of the arithmetic: another length gives other bits.
inline constexpr int kMlaSplitRows = 256;
static_assert(kMlaSplitRows % kGridTokens == 0);

// out[r][c] = sum over d of q[r][d] weight[d][c], for some columns of one head's W_UK.
struct MlaAbsorb {
  const float* q;  // [rows][nope], a row every q_row
  std::int64_t q_row;
  const Bf16* weight;  // [nope][cols], a row every weight_row
  std::int64_t weight_row;
  int rows;
  int nope;
  int cols;
  float* out;  // [rows][cols], a row every out_row
  std::int64_t out_row;
};

// Where a context's latent rows of one layer lie.
struct MlaLatents {
  const std::byte* pages;
  std::int64_t page_bytes;
  std::int64_t offset;         // of the layer's row 0 in its page
  const std::int32_t* blocks;  // page of each 16-token block
  DType dtype;
  int width;  // kv + rope
  int kv;
};

struct MlaTile {
  MlaLatents latents;
  int pairs;
  std::int32_t visible[kMlaPairs];  // pair p sees rows s < visible[p]; 0 for lanes without a pair
  const float* query_t;             // [width][16], lanes without a pair zero
  float scale;
  float* work;  // MlaWorkFloats(width): one worker's
};

constexpr std::int64_t MlaWorkFloats(std::int64_t width) {
  return std::int64_t{kMlaSplitRows} * kMlaPairs + kGridTokens * width;
}

// Softmax over part of the context, not yet divided by its sum.
struct MlaPartial {
  float* max;    // [16]
  float* sum;    // [16]
  float* value;  // [16][kv]
};

constexpr std::int64_t MlaPartialFloats(std::int64_t kv) {
  return kMlaPairs * (kv + 2);
}
[[gnu::always_inline]] inline MlaPartial MlaPartialAt(float* base) {
  return {base, base + kMlaPairs, base + std::int64_t{2} * kMlaPairs};
}

// out[r][n] = (weight[n] . latent[r]) * sigmoid(gate[r][n]), for some outputs of one head's W_UV.
struct MlaExpand {
  const float* latent;  // [rows][kv], dense
  const Bf16* weight;   // [outputs][kv], dense
  int rows;
  int kv;
  int outputs;  // a multiple of 16
  const float* gate;
  std::int64_t gate_row;
  float* out;
  std::int64_t out_row;
};

struct MlaSteps {
  void (*absorb)(const MlaAbsorb&);
  // Lane p of out[i] becomes query[p][i].
  void (*transpose)(const float* const* query, int pairs, int width, float* out);
  void (*attend)(const MlaTile&, int split, const MlaPartial&);
  // Appends `split` to the splits before it.
  void (*merge)(const MlaTile&, int split, const MlaPartial& into, const MlaPartial& from);
  // The pair's latent output: its value over its sum.
  void (*finish)(const MlaPartial&, int pair, int kv, float* out);
  void (*expand)(const MlaExpand&);
};

// Defined by mla_steps_cpu.cc, once per instruction set.
namespace avx512 {
const MlaSteps& StepsOfMla();
}
namespace x86_64_v3 {
const MlaSteps& StepsOfMla();
}
namespace x86_64 {
const MlaSteps& StepsOfMla();
}
namespace avx512_emulated {
const MlaSteps& StepsOfMla();
}

}  // namespace k3::kernels
