// The steps of kda_mix on the CPU, for one head and rows of one 16-row chunk (kernels notes 2.2 in
// the factor form of 2.3.2, offset of 2.4). Private to kda_mix: apart, so that a test can hold each
// step against outside numbers. With G the sum of log decays since the grid, and o = 2^58:
//   kd = k e^G o,  qd = q e^G o,  ki = k / (e^G o)
//   u_i = beta_i (v_i - kd_i S / o - sum_{j<i} (kd_i . ki_j) u_j)
//   out_i = qd_i S / o + sum_{j<i} (qd_i . ki_j) u_j + (q_i . k_i) u_i
//   fold: S = diag(e^G_15) S + sum_j (ki_j e^G_15 o) u_j^T
// The offset keeps all factors within e^+-40, so nothing is subnormal even at a decay of -5 in all
// 16 rows. Row i reads rows < i and S alone; every sum has one order, whatever the row count.
#pragma once
#include <cstdint>

#include "kernels/page_layout.h"

namespace k3::kernels {

// Causal convolution and SiLU of one head's channels: row i reads input[i..i+3], oldest first.
struct KdaConv {
  const float* input[kTailRows + kGridTokens];
  const float* weight;  // [dim][4]
  int dim;
  int rows;
  float* out;  // [rows][dim]
};

// Rows of the chunk so far. Rows beyond the current one may hold anything, NaN included.
struct KdaChunk {
  float* key_t;       // ki transposed, [dim][16]
  float* correction;  // u, [16][dim]
  float* log_decay;   // G, [16][dim]
};

struct KdaRows {
  int dim;
  int first;  // this chunk's rows [first, first + rows)
  int rows;
  KdaChunk chunk;
  const float* state;  // S at the grid, [dim][dim]
  float* q;            // [rows][dim] after SiLU; normalised in place
  float* k;            // the same
  const float* v;      // [rows][dim] after SiLU
  const float* z;      // decay logits, a row every z_stride
  std::int64_t z_stride;
  const float* dt_bias;  // [dim]
  const float* beta;     // logits, one every beta_stride
  std::int64_t beta_stride;
  float a_log;
  float lower_bound;  // in [-5, 0]: the factors overflow below
  float* work;        // KdaWorkFloats(dim)
  float* out;         // [rows][dim], neither normed nor gated
};

constexpr std::int64_t KdaWorkFloats(std::int64_t dim) {
  return (dim + kGridTokens) * kGridTokens * 4;
}

struct KdaFold {
  int dim;
  KdaChunk chunk;  // all 16 rows
  const float* from;
  float* to;    // may be `from`
  float* work;  // KdaWorkFloats(dim)
};

struct KdaGatedNorm {
  const float* o;       // [dim]
  const float* weight;  // [dim]
  const float* gate;    // [dim] logits
  int dim;
  float eps;
  float* out;  // [dim]
};

struct KdaSteps {
  void (*conv)(const KdaConv&);
  void (*rows)(const KdaRows&);
  void (*fold)(const KdaFold&);
  void (*gated_norm)(const KdaGatedNorm&);
};

// Defined by kda_rows_cpu.cc, once per instruction set.
namespace avx512 {
const KdaSteps& StepsOfKda();
}
namespace x86_64_v3 {
const KdaSteps& StepsOfKda();
}
namespace x86_64 {
const KdaSteps& StepsOfKda();
}
namespace avx512_emulated {
const KdaSteps& StepsOfKda();
}

}  // namespace k3::kernels
