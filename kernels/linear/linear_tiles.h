// The two ways to the same sums. An output is 64 chains of fma: k belongs to chain k mod 64, chains
// run over k ascending, then add as row_sums.h says; K counts as rounded up to 64 with zeros.
//   GEMV (few rows): a weight row is streamed past the rows of x, four accumulators each.
//   GEMM: one register's worth of chains ("strand") at a time over a tile of outputs and rows. The
//     strands of an output are independent, so the tile may fill all registers with sums; weights
//     are widened once per strand into L2 and serve every row of the block.
// Only the tile shapes differ between instruction sets, never the order.
#pragma once
#include "kernels/simd/row_sums.h"

namespace k3::kernels::K3_ISA {

inline constexpr int kHalves = kLanes / kRegisterLanes;  // strands of one accumulator
inline constexpr int kStrands = kStep / kRegisterLanes;
#if defined(__AVX512F__) || defined(K3_EMULATE_AVX512)
inline constexpr int kMicroRows = 6;  // 24 sums of 32 registers
inline constexpr int kMicroCols = 4;
#elif defined(__AVX2__)
inline constexpr int kMicroRows = 4;  // 12 sums of 16 registers
inline constexpr int kMicroCols = 3;
#else
inline constexpr int kMicroRows = 1;
inline constexpr int kMicroCols = 2;
#endif
inline constexpr int kTileCols = 24;   // outputs of a GEMM tile
inline constexpr int kBlockRows = 96;  // rows that share a widened tile
inline constexpr int kGemvCols = 16;   // outputs of a GEMV tile
inline constexpr int kPrefetchBytes = 4096;

// --- GEMV

// x: rows of `padded` floats, zeros beyond K. The last, partial step of w is copied out, since
// memory behind w may not be ours.
K3_INLINE float DotBf16(const Bf16* w, const float* x, std::int64_t count) {
  F32x16 sum[kAccumulators] = {Zero(), Zero(), Zero(), Zero()};
  std::int64_t k = 0;
  for (; k + kStep <= count; k += kStep) {
    __builtin_prefetch(reinterpret_cast<const char*>(w + k) + kPrefetchBytes);
    __builtin_prefetch(reinterpret_cast<const char*>(w + k) + kPrefetchBytes + 64);
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < kAccumulators; ++j)
      sum[j] = Fma(LoadBf16(w + k + kLanes * j), Load(x + k + kLanes * j), sum[j]);
  }
  if (k < count) {
    Bf16 tail[kStep] = {};
    for (std::int64_t i = k; i < count; ++i) tail[i - k] = w[i];
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < kAccumulators; ++j)
      sum[j] = Fma(LoadBf16(tail + kLanes * j), Load(x + k + kLanes * j), sum[j]);
  }
  return CombineSums(sum);
}

// --- GEMM

// What a worker keeps for one tile.
struct TileMemory {
  float* weights;  // [kTileCols][steps * kRegisterLanes], one strand
  float* first;    // [kBlockRows][kTileCols][kLanes]: a0, a0 + a1, then the total
  float* second;   // [kBlockRows][kTileCols][kRegisterLanes]: a2
};

K3_INLINE std::int64_t TileFloats(std::int64_t steps) {
  return kTileCols *
         (steps * kRegisterLanes + std::int64_t{kBlockRows} * (kLanes + kRegisterLanes));
}

K3_INLINE TileMemory CutTileMemory(float* memory, std::int64_t steps) {
  float* first = memory + kTileCols * steps * kRegisterLanes;
  return {memory, first, first + std::int64_t{kTileCols} * kBlockRows * kLanes};
}

struct MicroArgs {
  const float* x;  // this strand of the tile's first row; rows `length` apart
  const float* w;  // this strand of the tile's first output; outputs `length` apart
  std::int64_t length;
  float* first;
  float* second;
  int accumulator;  // 0..3: what becomes of the sum, see Settle
};

K3_INLINE void Settle(Register sum, int accumulator, float* first, float* second) {
  switch (accumulator) {
    case 0:
      StoreRegister(first, sum);
      return;
    case 1:
      StoreRegister(first, AddRegister(LoadRegister(first), sum));
      return;
    case 2:
      StoreRegister(second, sum);
      return;
    default:
      StoreRegister(first,
                    AddRegister(LoadRegister(first), AddRegister(LoadRegister(second), sum)));
  }
}

// A function of its own: its code is large, and one call is thousands of products. `static` keeps
// it in its object file.
template <int M>
[[gnu::noinline]] static void MicroTile(const MicroArgs& a) {
  Register sum[M][kMicroCols];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < kMicroCols; ++n) sum[m][n] = ZeroRegister();
  for (std::int64_t i = 0; i < a.length; i += kRegisterLanes) {
    Register w[kMicroCols];
#pragma GCC unroll 8
    for (int n = 0; n < kMicroCols; ++n) w[n] = LoadRegister(a.w + n * a.length + i);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const Register x = LoadRegister(a.x + m * a.length + i);
#pragma GCC unroll 8
      for (int n = 0; n < kMicroCols; ++n) sum[m][n] = FmaRegister(w[n], x, sum[m][n]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < kMicroCols; ++n) {
      const std::int64_t at = m * kTileCols + n;
      Settle(sum[m][n], a.accumulator, a.first + at * kLanes, a.second + at * kRegisterLanes);
    }
}

// At most kMicroRows rows of it.
K3_INLINE void MicroRows(int rows, const MicroArgs& a) {
  if (rows == 1) MicroTile<1>(a);
  if constexpr (kMicroRows >= 4) {
    if (rows == 2) MicroTile<2>(a);
    if (rows == 3) MicroTile<3>(a);
    if (rows == 4) MicroTile<4>(a);
  }
  if constexpr (kMicroRows >= 6) {
    if (rows == 5) MicroTile<5>(a);
    if (rows == 6) MicroTile<6>(a);
  }
}

// One strand of `cols` weight rows (zeros up to kTileCols), widened.
K3_INLINE void WidenStrand(const ConstTensor& weight, std::int64_t first, int cols, int strand,
                           float* out) {
  const std::int64_t whole = weight.cols / kStep;
  const std::int64_t tail = weight.cols % kStep;
  const std::int64_t length = (whole + (tail > 0)) * kRegisterLanes;
  for (int n = 0; n < kTileCols; ++n) {
    float* to = out + n * length;
    if (n >= cols) {
      for (std::int64_t i = 0; i < length; i += kRegisterLanes)
        StoreRegister(to + i, ZeroRegister());
      continue;
    }
    const Bf16* w = weight.Row<Bf16>(first + n) + std::int64_t{strand} * kRegisterLanes;
    for (std::int64_t b = 0; b < whole; ++b)
      StoreRegister(to + b * kRegisterLanes, LoadBf16Register(w + b * kStep));
    const Bf16* end = weight.Row<Bf16>(first + n) + weight.cols;
    for (int i = 0; tail > 0 && i < kRegisterLanes; ++i) {
      const Bf16* p = w + whole * kStep + i;
      to[whole * kRegisterLanes + i] = p < end ? ToFloat(*p) : 0.0F;
    }
  }
}

// Rows of x, packed strand by strand: [kStrands][rows][length].
struct PackedRows {
  const float* data;
  std::int64_t rows;
  std::int64_t length;

  K3_INLINE const float* Strand(int strand, std::int64_t row) const {
    return data + (strand * rows + row) * length;
  }
};

struct TileRange {
  std::int64_t col;  // first output of the weight
  int cols;          // <= kTileCols
  std::int64_t row;  // first row of x
  int rows;          // <= kBlockRows
};

K3_INLINE void StrandTile(const PackedRows& x, const TileRange& range, int strand,
                          const TileMemory& memory) {
  const std::int64_t half = strand % kHalves;
  const int tiles = (range.rows + kMicroRows - 1) / kMicroRows;
  for (int tile = 0; tile < tiles; ++tile) {
    const int row = range.rows * tile / tiles;
    const int rows = range.rows * (tile + 1) / tiles - row;
    for (int n = 0; n < range.cols; n += kMicroCols) {
      const std::int64_t at = std::int64_t{row} * kTileCols + n;
      MicroRows(rows, {x.Strand(strand, range.row + row), memory.weights + n * x.length, x.length,
                       memory.first + at * kLanes + half * kRegisterLanes,
                       memory.second + at * kRegisterLanes, strand / kHalves});
    }
  }
}

// dots[r][n] of the range, rows of `dots` kTileCols apart.
[[gnu::noinline]] static void TileDots(const PackedRows& x, const ConstTensor& weight,
                                       const TileRange& range, const TileMemory& memory,
                                       float* dots) {
  for (int half = 0; half < kHalves; ++half) {
    for (int accumulator = 0; accumulator < kAccumulators; ++accumulator) {
      const int strand = accumulator * kHalves + half;
      WidenStrand(weight, range.col, range.cols, strand, memory.weights);
      StrandTile(x, range, strand, memory);
    }
  }
  for (int r = 0; r < range.rows; ++r)
    for (int n = 0; n < range.cols; ++n) {
      const std::int64_t at = r * kTileCols + n;
      dots[at] = ReduceAdd(Load(memory.first + at * kLanes));
    }
}

}  // namespace k3::kernels::K3_ISA
