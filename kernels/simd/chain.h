// Products whose every output element is ONE fma chain over k ascending, so that its bits depend on
// neither the rows beside it nor the shape of the tile it was computed in:
//   y[r][c] = fma(x[r][k], m[k][c], ...), continued from y or started at zero.
// Used where the matrix is read row by row (KDA states, latents, W_UK); linear has its own order.
// Tiles are sized to the registers: a chain step has four cycles of latency and two are started in
// each, so eight registers of sums must be in flight.
#pragma once
#include "kernels/simd/simd.h"

namespace k3::kernels::K3_ISA {

#if defined(__AVX512F__) || defined(K3_EMULATE_AVX512)
inline constexpr int kChainRows = 8;   // rows of one tile, two vectors wide
inline constexpr int kChainWidth = 2;  // vectors of a tile of many rows
#elif defined(__AVX2__) && defined(__FMA__)
inline constexpr int kChainRows = 6;  // one F32x16 is two registers of sixteen
inline constexpr int kChainWidth = 1;
#else
inline constexpr int kChainRows = 2;
inline constexpr int kChainWidth = 1;
#endif

inline constexpr std::int64_t kVectorFloats = kLanes;  // as an offset

// M is float or Bf16. x[r][k] = x[r * x_row + k * x_step]; m[k][c] = m[k * m_step + c].
template <typename M>
struct Chain {
  const float* x;
  std::int64_t x_row;
  std::int64_t x_step;
  const M* m;
  std::int64_t m_step;
  int count;  // length of the chain
  float* y;
  std::int64_t y_row;
  // A chain may also start at scale[r] * start[r][c] (rows y_row apart): what a fold does.
  const float* start = nullptr;
  const float* scale = nullptr;
};

K3_INLINE F32x16 Widen(const float* p) {
  return Load(p);
}
K3_INLINE F32x16 Widen(const Bf16* p) {
  return LoadBf16(p);
}

template <int R, int V>
struct ChainSums {
  F32x16 sum[R][V];
};

template <int R, int V>
K3_INLINE void StartChains(ChainSums<R, V>& s, const float* y, std::int64_t y_row, bool fresh) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      s.sum[r][v] = fresh ? Zero() : Load(y + r * y_row + v * kVectorFloats);
}

template <int R, int V>
K3_INLINE void StoreChains(const ChainSums<R, V>& s, float* y, std::int64_t y_row) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) Store(y + r * y_row + v * kVectorFloats, s.sum[r][v]);
}

// `count` more steps of R x V chains.
template <int R, int V, typename M>
K3_INLINE void ExtendChains(ChainSums<R, V>& s, const Chain<M>& c) {
  const float* x = c.x;
  const M* m = c.m;
  for (int k = 0; k < c.count; ++k, x += c.x_step, m += c.m_step) {
    F32x16 row[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) row[v] = Widen(m + v * kVectorFloats);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F32x16 factor = Set1(x[r * c.x_row]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) s.sum[r][v] = Fma(factor, row[v], s.sum[r][v]);
    }
  }
}

template <int R, int V>
K3_INLINE void ScaleStart(ChainSums<R, V>& s, const float* start, std::int64_t row_step,
                          const float* scale) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      s.sum[r][v] = Mul(Set1(scale[r]), Load(start + r * row_step + v * kVectorFloats));
}

template <int R, int V, typename M>
K3_INLINE void ChainTile(Chain<M> c, int row, int col, bool fresh) {
  ChainSums<R, V> sums;
  float* y = c.y + row * c.y_row + col;
  if (c.start != nullptr) {
    ScaleStart(sums, c.start + row * c.y_row + col, c.y_row, c.scale + row);
  } else {
    StartChains(sums, y, c.y_row, fresh);
  }
  c.x += row * c.x_row;
  c.m += col;
  ExtendChains(sums, c);
  StoreChains(sums, y, c.y_row);
}

// One column strip of V vectors, all rows: near-equal tiles of at most kChainRows, so that none is
// left too small to hide the latency.
template <int V, typename M>
K3_INLINE void ChainStrip(const Chain<M>& c, int rows, int col, bool fresh) {
  const int tiles = (rows + kChainRows - 1) / kChainRows;
  for (int tile = 0; tile < tiles; ++tile) {
    const int row = rows * tile / tiles;
    const int size = rows * (tile + 1) / tiles - row;
    if (size == 1) ChainTile<1, V>(c, row, col, fresh);
    if (size == 2) ChainTile<2, V>(c, row, col, fresh);
    if constexpr (kChainRows > 2) {
      if (size == 3) ChainTile<3, V>(c, row, col, fresh);
      if (size == 4) ChainTile<4, V>(c, row, col, fresh);
      if (size == 5) ChainTile<5, V>(c, row, col, fresh);
      if (size == 6) ChainTile<6, V>(c, row, col, fresh);
    }
    if constexpr (kChainRows > 6) {
      if (size == 7) ChainTile<7, V>(c, row, col, fresh);
      if (size == 8) ChainTile<8, V>(c, row, col, fresh);
    }
  }
}

// All rows and `cols` (a multiple of 16) columns. Few rows get wider tiles.
template <typename M>
K3_INLINE void RunChains(const Chain<M>& c, int rows, int cols, bool fresh) {
  int col = 0;
  if (rows == 1) {
    constexpr int kV = 4 * kChainWidth;
    for (; col + kV * kLanes <= cols; col += kV * kLanes) ChainTile<1, kV>(c, 0, col, fresh);
  } else if (rows == 2) {
    constexpr int kV = 2 * kChainWidth;
    for (; col + kV * kLanes <= cols; col += kV * kLanes) ChainTile<2, kV>(c, 0, col, fresh);
  } else if (kChainWidth > 1) {
    for (; col + kChainWidth * kLanes <= cols; col += kChainWidth * kLanes)
      ChainStrip<kChainWidth>(c, rows, col, fresh);
  }
  for (; col < cols; col += kLanes) ChainStrip<1>(c, rows, col, fresh);
}

}  // namespace k3::kernels::K3_ISA
