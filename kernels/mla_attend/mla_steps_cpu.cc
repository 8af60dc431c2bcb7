#include "kernels/mla_attend/mla_steps.h"
#include "kernels/simd/chain.h"
#include "kernels/simd/row_sums.h"
#include "kernels/simd/simd.h"

namespace k3::kernels::K3_ISA {
namespace {

// Rows and columns of latents that one pass of all pairs keeps in the first-level cache.
constexpr int kValueRows = 64;
constexpr int kValueCols = 64;
// Width of queries and rows that a block's score tiles keep there.
constexpr int kScoreWidth = 192;
constexpr float kMinusInfinity = -__builtin_inff();

int Least(int a, int b) {
  return a < b ? a : b;
}
int Most(int a, int b) {
  return a > b ? a : b;
}

template <typename M>
K3_INLINE const M* LatentRow(const MlaLatents& latents, int s) {
  const std::int64_t page = latents.blocks[s / kGridTokens];
  const std::byte* rows = latents.pages + page * latents.page_bytes + latents.offset;
  return reinterpret_cast<const M*>(rows) + std::int64_t{s % kGridTokens} * latents.width;
}

void Absorb(const MlaAbsorb& a) {
  RunChains(Chain<Bf16>{a.q, a.q_row, 1, a.weight, a.weight_row, a.nope, a.out, a.out_row}, a.rows,
            a.cols, true);
}

void Transpose(const float* const* query, int pairs, int width, float* out) {
  for (int i = 0; i < width; ++i) {
    for (int p = 0; p < pairs; ++p) out[i * kMlaPairs + p] = query[p][i];
    for (int p = pairs; p < kMlaPairs; ++p) out[i * kMlaPairs + p] = 0.0F;
  }
}

struct Split {
  F32x16 limits;  // visible, as floats: exact below 2^24
  float* scores;  // [256][16], then the probabilities
  float* wide;    // [16][width]
  int begin;
  int end;  // of the rows that any pair sees

  K3_INLINE float* ScoresOf(int s) const { return scores + std::int64_t{s - begin} * kMlaPairs; }
};

Split SplitOf(const MlaTile& t, int split) {
  float limits[kLanes];
  int longest = 0;
  for (int p = 0; p < kMlaPairs; ++p) {
    limits[p] = static_cast<float>(t.visible[p]);
    longest = Most(longest, t.visible[p]);
  }
  const int begin = split * kMlaSplitRows;
  return {Load(limits), t.work, t.work + std::int64_t{kMlaSplitRows} * kMlaPairs, begin,
          Least(begin + kMlaSplitRows, longest)};
}

// Pages lie anywhere, so the machine cannot guess the next one.
void PrefetchBlock(const MlaTile& t, int first) {
  const MlaLatents& latents = t.latents;
  const std::int64_t page = latents.blocks[first / kGridTokens];
  const std::byte* rows = latents.pages + page * latents.page_bytes + latents.offset;
  const std::int64_t bytes = std::int64_t{kGridTokens} * latents.width * SizeOf(latents.dtype);
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(rows + i);
}

// The block's rows as floats: bf16 ones are widened once for all pairs.
const float* WideRows(const MlaTile& t, const Split& split, int first, int rows) {
  if (t.latents.dtype == DType::kF32) return LatentRow<float>(t.latents, first);
  const Bf16* from = LatentRow<Bf16>(t.latents, first);
  const int count = rows * t.latents.width;
  for (int i = 0; i < count; i += kLanes) Store(split.wide + i, LoadBf16(from + i));
  return split.wide;
}

// In pieces of the width, so that a piece of the queries and of the rows stays in the first-level
// cache for all tiles of the block.
void Scores(const MlaTile& t, const Split& split) {
  const int width = t.latents.width;
  for (int s = split.begin; s < split.end; s += kGridTokens) {
    const int rows = Least(kGridTokens, split.end - s);
    const float* wide = WideRows(t, split, s, rows);
    if (s + kGridTokens < split.end) PrefetchBlock(t, s + kGridTokens);
    for (int k = 0; k < width; k += kScoreWidth) {
      RunChains(Chain<float>{wide + k, width, 1, t.query_t + std::int64_t{k} * kMlaPairs, kMlaPairs,
                             Least(kScoreWidth, width - k), split.ScoresOf(s), kMlaPairs},
                rows, kMlaPairs, k == 0);
    }
  }
}

// Rows beyond a lane's limit leave its maximum and sum exactly as they were.
void Softmax(const MlaTile& t, const Split& split, const MlaPartial& partial) {
  F32x16 max = Set1(kMinusInfinity);
  F32x16 sum = Zero();
  for (int s = split.begin; s < split.end; ++s) {
    float* score = split.ScoresOf(s);
    const F32x16 scaled = Mul(Load(score), Set1(t.scale));
    Store(score, scaled);
    max = SelectLess(Set1(static_cast<float>(s)), split.limits, Max(max, scaled), max);
  }
  for (int s = split.begin; s < split.end; ++s) {
    float* score = split.ScoresOf(s);
    const F32x16 p = Exp(Sub(Load(score), max));
    Store(score, p);
    sum = SelectLess(Set1(static_cast<float>(s)), split.limits, Add(sum, p), sum);
  }
  Store(partial.max, max);
  Store(partial.sum, sum);
}

// What a value tile works on: pairs from `pair`, columns from `col`, rows [begin, end).
struct Piece {
  int pair;
  int col;
  int cols;
  int begin;
  int end;
};

template <int R, int V, typename M>
K3_INLINE void ValueTile(const MlaTile& t, const Split& split, float* value, const Piece& piece) {
  const int kv = t.latents.kv;
  float* y = value + std::int64_t{piece.pair} * kv + piece.col;
  ChainSums<R, V> sums;
  StartChains(sums, y, kv, piece.begin == split.begin);
  for (int s = piece.begin; s < piece.end;) {
    const int rows = Least(kGridTokens - s % kGridTokens, piece.end - s);
    ExtendChains(
        sums, Chain<M>{split.ScoresOf(s) + piece.pair, 1, kMlaPairs,
                       LatentRow<M>(t.latents, s) + piece.col, t.latents.width, rows, nullptr, 0});
    s += rows;
  }
  StoreChains(sums, y, kv);
}

template <int R, typename M>
K3_INLINE void ValueStrip(const MlaTile& t, const Split& split, float* value, Piece piece) {
  constexpr int kV = (R == 1 ? 4 : R == 2 ? 2 : 1) * kChainWidth;
  const int end = piece.col + piece.cols;
  for (; piece.col + kV * kLanes <= end; piece.col += kV * kLanes)
    ValueTile<R, kV, M>(t, split, value, piece);
  if constexpr (kV > 1)
    for (; piece.col < end; piece.col += kLanes) ValueTile<R, 1, M>(t, split, value, piece);
}

template <typename M>
void ValueGroup(const MlaTile& t, const Split& split, float* value, const Piece& piece, int size) {
  if (size == 1) ValueStrip<1, M>(t, split, value, piece);
  if (size == 2) ValueStrip<2, M>(t, split, value, piece);
  if constexpr (kChainRows > 2) {
    if (size == 3) ValueStrip<3, M>(t, split, value, piece);
    if (size == 4) ValueStrip<4, M>(t, split, value, piece);
    if (size == 5) ValueStrip<5, M>(t, split, value, piece);
    if (size == 6) ValueStrip<6, M>(t, split, value, piece);
  }
  if constexpr (kChainRows > 6) {
    if (size == 7) ValueStrip<7, M>(t, split, value, piece);
    if (size == 8) ValueStrip<8, M>(t, split, value, piece);
  }
}

// The rows every pair of the group sees together, then each pair's own last ones: a row beyond a
// pair's limit is never multiplied, not even by zero.
template <typename M>
void ValuesOfGroup(const MlaTile& t, const Split& split, float* value, Piece piece, int size) {
  const int end = piece.end;
  int common = end;
  for (int p = piece.pair; p < piece.pair + size; ++p) common = Least(common, t.visible[p]);
  common = Most(common, piece.begin);
  piece.end = common;
  if (common > piece.begin) ValueGroup<M>(t, split, value, piece, size);
  for (int p = piece.pair; p < piece.pair + size; ++p) {
    const Piece rest{p, piece.col, piece.cols, common, Least(end, t.visible[p])};
    if (rest.end > rest.begin) ValueGroup<M>(t, split, value, rest, 1);
  }
}

template <typename M>
void Values(const MlaTile& t, const Split& split, float* value) {
  const int groups = (t.pairs + kChainRows - 1) / kChainRows;
  for (int s = split.begin; s < split.end; s += kValueRows) {
    for (int col = 0; col < t.latents.kv; col += kValueCols) {
      for (int group = 0; group < groups; ++group) {
        const int pair = t.pairs * group / groups;
        const Piece piece{pair, col, Least(kValueCols, t.latents.kv - col), s,
                          Least(s + kValueRows, split.end)};
        ValuesOfGroup<M>(t, split, value, piece, t.pairs * (group + 1) / groups - pair);
      }
    }
  }
}

void Attend(const MlaTile& t, int index, const MlaPartial& partial) {
  const Split split = SplitOf(t, index);
  Scores(t, split);
  Softmax(t, split, partial);
  if (t.latents.dtype == DType::kF32) {
    Values<float>(t, split, partial.value);
  } else {
    Values<Bf16>(t, split, partial.value);
  }
}

void Merge(const MlaTile& t, int split, const MlaPartial& into, const MlaPartial& from) {
  const F32x16 max = Max(Load(into.max), Load(from.max));
  float keep[kLanes], add[kLanes];
  Store(keep, Exp(Sub(Load(into.max), max)));
  Store(add, Exp(Sub(Load(from.max), max)));
  float top[kLanes];
  Store(top, max);
  for (int p = 0; p < t.pairs; ++p) {
    if (t.visible[p] <= split * kMlaSplitRows) continue;
    into.max[p] = top[p];
    into.sum[p] = into.sum[p] * keep[p] + from.sum[p] * add[p];
    float* value = into.value + std::int64_t{p} * t.latents.kv;
    const float* more = from.value + std::int64_t{p} * t.latents.kv;
    for (int c = 0; c < t.latents.kv; c += kLanes)
      Store(value + c, Fma(Load(more + c), Set1(add[p]), Mul(Load(value + c), Set1(keep[p]))));
  }
}

void Finish(const MlaPartial& partial, int pair, int kv, float* out) {
  const F32x16 share = Set1(1.0F / partial.sum[pair]);
  const float* value = partial.value + std::int64_t{pair} * kv;
  for (int c = 0; c < kv; c += kLanes) Store(out + c, Mul(Load(value + c), share));
}

// The order of row_sums.h, one side in bf16.
float DotBf16(const Bf16* a, const float* b, int count) {
  F32x16 sum[kAccumulators] = {Zero(), Zero(), Zero(), Zero()};
  int i = 0;
  for (; i + kStep <= count; i += kStep)
    for (int j = 0; j < kAccumulators; ++j)
      sum[j] = Fma(LoadBf16(a + i + kVectorFloats * j), Load(b + i + kVectorFloats * j), sum[j]);
  for (int j = 0; i < count; ++j, i += kLanes) sum[j] = Fma(LoadBf16(a + i), Load(b + i), sum[j]);
  return CombineSums(sum);
}

void Expand(const MlaExpand& a) {
  for (int r = 0; r < a.rows; ++r) {
    for (int n = 0; n < a.outputs; n += kLanes) {
      float o[kLanes];
      for (int i = 0; i < kLanes; ++i)
        o[i] =
            DotBf16(a.weight + std::int64_t{n + i} * a.kv, a.latent + std::int64_t{r} * a.kv, a.kv);
      Store(a.out + r * a.out_row + n, Mul(Load(o), Sigmoid(Load(a.gate + r * a.gate_row + n))));
    }
  }
}

}  // namespace

const MlaSteps& StepsOfMla() {
  static constexpr MlaSteps kSteps = {Absorb, Transpose, Attend, Merge, Finish, Expand};
  return kSteps;
}

}  // namespace k3::kernels::K3_ISA
