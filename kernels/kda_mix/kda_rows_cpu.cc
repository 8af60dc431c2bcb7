#include "kernels/kda_mix/kda_rows.h"
#include "kernels/simd/chain.h"
#include "kernels/simd/simd.h"

namespace k3::kernels::K3_ISA {
namespace {

constexpr std::int64_t kChunkRows = kGridTokens;  // as an offset
constexpr float kOffsetBits = 58.0F;
constexpr float kUndoOffset = 0x1p-58F;
constexpr float kNormEps = 1e-6F;  // on the sum of squares, inside the root
// The rows' factors and products, in KdaRows::work.
struct Work {
  float* factors;       // kd rows, then qd rows: [2 * rows][dim]
  float* products;      // factors times S: [2 * rows][dim]
  float* coefficients;  // factors times ki of each chunk row: [2 * rows][16]
};

Work WorkOf(const KdaRows& a) {
  const std::int64_t matrix = 2 * kChunkRows * a.dim;
  return {a.work, a.work + matrix, a.work + 2 * matrix};
}

void Conv(const KdaConv& a) {
  for (int c = 0; c < a.dim; c += kLanes) {
    F32x16 tap[kConvTaps];
    LoadInterleaved(a.weight + std::int64_t{c} * kConvTaps, tap);
    for (int i = 0; i < a.rows; ++i) {
      F32x16 sum = Mul(tap[0], Load(a.input[i] + c));
      for (int j = 1; j < kConvTaps; ++j) sum = Fma(tap[j], Load(a.input[i + j] + c), sum);
      Store(a.out + std::int64_t{i} * a.dim + c, Silu(sum));
    }
  }
}

float Dot(const float* a, const float* b, int dim) {
  F32x16 sum = Zero();
  for (int c = 0; c < dim; c += kLanes) sum = Fma(Load(a + c), Load(b + c), sum);
  return ReduceAdd(sum);
}

// x / sqrt(sum x^2 + eps) * scale.
void Normalise(float* x, int dim, float scale) {
  const F32x16 factor = Set1(scale / __builtin_sqrtf(Dot(x, x, dim) + kNormEps));
  for (int c = 0; c < dim; c += kLanes) Store(x + c, Mul(Load(x + c), factor));
}

// Appends row `r` of this call to the chunk: its decay, ki, kd and qd.
void RowFactors(const KdaRows& a, const Work& work, int r, F32x16 sharpness) {
  const int i = a.first + r;
  const std::int64_t dim = a.dim;
  const float* q = a.q + r * dim;
  const float* k = a.k + r * dim;
  float* decay = a.chunk.log_decay + i * dim;
  for (int c = 0; c < a.dim; c += kLanes) {
    const F32x16 logit = Add(Load(a.z + r * a.z_stride + c), Load(a.dt_bias + c));
    F32x16 g = Mul(Set1(a.lower_bound), Sigmoid(Mul(sharpness, logit)));
    if (i > 0) g = Add(Load(decay - dim + c), g);
    Store(decay + c, g);
    const F32x16 e = Exp(g, kOffsetBits);
    Store(work.factors + r * dim + c, Mul(Load(k + c), e));
    Store(work.factors + (a.rows + r) * dim + c, Mul(Load(q + c), e));
    float key[kLanes];
    Store(key, Div(Load(k + c), e));
    for (int lane = 0; lane < kLanes; ++lane)
      a.chunk.key_t[(c + lane) * kGridTokens + i] = key[lane];
  }
}

// Two rows' dots with all 16 ki at once, as two chains over even and odd channels: one alone would
// wait for its own latency. Lanes of rows not yet there hold rubbish that nobody reads.
void Coefficients(const KdaRows& a, const Work& work) {
  for (int r = 0; r < 2 * a.rows; r += 2) {
    ChainSums<2, 1> even, odd;
    Chain<float> c{work.factors + std::int64_t{r} * a.dim,
                   a.dim,
                   2,
                   a.chunk.key_t,
                   2 * kChunkRows,
                   a.dim / 2,
                   nullptr,
                   0};
    StartChains(even, nullptr, 0, true);
    StartChains(odd, nullptr, 0, true);
    for (int n = 0; n < a.dim / 2; ++n) {
      Chain<float> step = c;
      step.count = 1;
      step.x += n * c.x_step;
      step.m += n * c.m_step;
      ExtendChains(even, step);
      step.x += 1;
      step.m += kGridTokens;
      ExtendChains(odd, step);
    }
    for (int i = 0; i < 2; ++i)
      Store(work.coefficients + (r + i) * kChunkRows, Add(even.sum[i][0], odd.sum[i][0]));
  }
}

void TimesState(const KdaRows& a, const Work& work) {
  const std::int64_t dim = a.dim;
  RunChains(Chain<float>{work.factors, dim, 1, a.state, dim, a.dim, work.products, dim}, 2 * a.rows,
            a.dim, true);
}

struct Row {
  const float* key_product;    // kd S, with the offset
  const float* query_product;  // qd S, with the offset
  const float* key_dots;       // kd . ki_j
  const float* query_dots;     // qd . ki_j
  const float* v;
  float* out;
  F32x16 beta;
  F32x16 diagonal;  // q . k: no exponential in it
};

template <int V>
K3_INLINE void SolveColumns(const KdaRows& a, const Row& row, int i, int col) {
  F32x16 u[V], o[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    u[v] = Mul(Load(row.key_product + col + v * kVectorFloats), Set1(kUndoOffset));
    o[v] = Mul(Load(row.query_product + col + v * kVectorFloats), Set1(kUndoOffset));
  }
  float* correction = a.chunk.correction + col;
  for (int j = 0; j < i; ++j, correction += a.dim) {
    const F32x16 key_dot = Set1(row.key_dots[j]);
    const F32x16 query_dot = Set1(row.query_dots[j]);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const F32x16 earlier = Load(correction + v * kVectorFloats);
      u[v] = Fma(key_dot, earlier, u[v]);
      o[v] = Fma(query_dot, earlier, o[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const F32x16 own = Mul(row.beta, Sub(Load(row.v + col + v * kVectorFloats), u[v]));
    Store(correction + v * kVectorFloats, own);
    Store(row.out + col + v * kVectorFloats, Fma(row.diagonal, own, o[v]));
  }
}

// Forward substitution: row after row, each from the ones before it.
void Solve(const KdaRows& a, const Work& work, int r) {
  const std::int64_t dim = a.dim;
  const Row row{.key_product = work.products + r * dim,
                .query_product = work.products + (a.rows + r) * dim,
                .key_dots = work.coefficients + r * kChunkRows,
                .query_dots = work.coefficients + (a.rows + r) * kChunkRows,
                .v = a.v + r * dim,
                .out = a.out + r * dim,
                .beta = Sigmoid(Set1(a.beta[r * a.beta_stride])),
                .diagonal = Set1(Dot(a.q + r * dim, a.k + r * dim, a.dim))};
  int col = 0;
  for (; col + 2 * kLanes <= a.dim; col += 2 * kLanes) SolveColumns<2>(a, row, a.first + r, col);
  if (col < a.dim) SolveColumns<1>(a, row, a.first + r, col);
}

void Rows(const KdaRows& a) {
  const Work work = WorkOf(a);
  const float query_scale = 1.0F / __builtin_sqrtf(static_cast<float>(a.dim));
  const F32x16 sharpness = Exp(Set1(a.a_log));
  for (int r = 0; r < a.rows; ++r) {
    Normalise(a.q + std::int64_t{r} * a.dim, a.dim, query_scale);
    Normalise(a.k + std::int64_t{r} * a.dim, a.dim, 1.0F);
    RowFactors(a, work, r, sharpness);
  }
  TimesState(a, work);
  Coefficients(a, work);
  for (int r = 0; r < a.rows; ++r) Solve(a, work, r);
}

void Fold(const KdaFold& a) {
  const std::int64_t dim = a.dim;
  float* keys = a.work;                        // k_j e^(G_15 - G_j), [dim][16]
  float* decays = a.work + dim * kGridTokens;  // e^G_15
  float* raised = decays + dim;                // the same, with the offset
  const float* last = a.chunk.log_decay + (kGridTokens - 1) * dim;
  for (int c = 0; c < a.dim; c += kLanes) {
    Store(decays + c, Exp(Load(last + c)));
    Store(raised + c, Exp(Load(last + c), kOffsetBits));
  }
  for (int c = 0; c < a.dim; ++c)
    Store(keys + c * kChunkRows, Mul(Load(a.chunk.key_t + c * kChunkRows), Set1(raised[c])));
  // A few whole rows at a time: S is read and written front to back.
  const int groups = (a.dim + kChainRows - 1) / kChainRows;
  for (int group = 0; group < groups; ++group) {
    const int first = a.dim * group / groups;
    const int rows = a.dim * (group + 1) / groups - first;
    RunChains(
        Chain<float>{keys + first * kChunkRows, kGridTokens, 1, a.chunk.correction, dim,
                     kGridTokens, a.to + first * dim, dim, a.from + first * dim, decays + first},
        rows, a.dim, true);
  }
}

void GatedNorm(const KdaGatedNorm& a) {
  const float mean = Dot(a.o, a.o, a.dim) / static_cast<float>(a.dim);
  const F32x16 factor = Set1(1.0F / __builtin_sqrtf(mean + a.eps));
  for (int c = 0; c < a.dim; c += kLanes) {
    const F32x16 normed = Mul(Mul(Load(a.o + c), factor), Load(a.weight + c));
    Store(a.out + c, Mul(normed, Sigmoid(Load(a.gate + c))));
  }
}

}  // namespace

const KdaSteps& StepsOfKda() {
  static constexpr KdaSteps kSteps = {Conv, Rows, Fold, GatedNorm};
  return kSteps;
}

}  // namespace k3::kernels::K3_ISA
