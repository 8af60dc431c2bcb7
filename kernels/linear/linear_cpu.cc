// One parallel region over the tiles of all segments (two where rows of x are packed first).
#include "kernels/cpu_ops.h"
#include "kernels/linear/linear_tiles.h"

namespace k3::kernels::K3_ISA {
namespace {

// Up to here a row of weights is streamed past each row of x; beyond, tiles pay.
constexpr std::int64_t kGemvRows = 4;

std::int64_t Ceil(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

// Sixteen inputs of row t from column c on, normed where the op says so.
K3_INLINE F32x16 InputLanes(const LinearArgs& args, const float* x, float inverse, std::int64_t c) {
  const std::int64_t left = args.x.cols - c;
  const auto lanes = static_cast<int>(left < kLanes ? (left > 0 ? left : 0) : kLanes);
  const F32x16 value = lanes == kLanes ? Load(x + c) : LoadFirst(x + c, lanes);
  if (args.norm_weight.empty()) return value;
  const Bf16* w = args.norm_weight.Row<Bf16>(0) + c;
  return Mul(Mul(value, Set1(inverse)), lanes == kLanes ? LoadBf16(w) : LoadBf16First(w, lanes));
}

float InverseOfRow(const LinearArgs& args, std::int64_t t) {
  if (args.norm_weight.empty()) return 1.0F;
  return InverseRms(args.x.Row<float>(t), args.x.cols, args.norm_eps);
}

// Row after row, zeros up to a whole step: what GEMV reads.
void PadRow(const LinearArgs& args, std::int64_t t, std::int64_t padded, float* out) {
  const float inverse = InverseOfRow(args, t);
  for (std::int64_t c = 0; c < padded; c += kLanes)
    Store(out + t * padded + c, InputLanes(args, args.x.Row<float>(t), inverse, c));
}

// The same numbers, strand by strand: what GEMM reads.
void PackRow(const LinearArgs& args, std::int64_t t, std::int64_t length, float* out) {
  const float inverse = InverseOfRow(args, t);
  const float* x = args.x.Row<float>(t);
  for (std::int64_t step = 0; step * kRegisterLanes < length; ++step) {
    for (int j = 0; j < kAccumulators; ++j) {
      float lane[kLanes];
      Store(lane, InputLanes(args, x, inverse, step * kStep + std::int64_t{kLanes} * j));
      for (std::int64_t half = 0; half < kHalves; ++half) {
        const std::int64_t strand = std::int64_t{j} * kHalves + half;
        float* to = out + (strand * args.x.rows + t) * length + step * kRegisterLanes;
        StoreRegister(to, LoadRegister(lane + half * kRegisterLanes));
      }
    }
  }
}

// Dots of one tile; `up` only of a gated segment.
struct Dots {
  const float* gate;
  const float* up;
  std::int64_t stride;
};

void Finish(const LinearArgs& args, const LinearSegment& segment, const TileRange& range,
            const Dots& dots) {
  for (int r = 0; r < range.rows; ++r) {
    float* out = segment.out.Row<float>(range.row + r) + range.col;
    for (int n = 0; n < range.cols; n += kLanes) {
      const int lanes = range.cols - n < kLanes ? range.cols - n : kLanes;
      F32x16 y = LoadFirst(dots.gate + r * dots.stride + n, lanes);
      if (dots.up != nullptr) {
        y = Situ(y, LoadFirst(dots.up + r * dots.stride + n, lanes), args.situ_beta,
                 args.situ_linear_beta);
      }
      if (segment.accumulate) y = Add(LoadFirst(out + n, lanes), y);
      StoreFirst(out + n, y, lanes);
    }
  }
}

// Where tile number `unit` of the whole op lies: units run over segments, then outputs, then rows.
struct Place {
  const LinearSegment* segment;
  TileRange range;
};

Place FindPlace(const LinearArgs& args, std::int64_t unit, int tile_cols, int block_rows) {
  const std::int64_t blocks = Ceil(args.x.rows, block_rows);
  for (const LinearSegment* segment = args.segments;; ++segment) {
    const std::int64_t units = Ceil(segment->weight.rows, tile_cols) * blocks;
    if (unit >= units) {
      unit -= units;
      continue;
    }
    const std::int64_t col = unit / blocks * tile_cols;
    const std::int64_t row = unit % blocks * block_rows;
    const std::int64_t cols = segment->weight.rows - col;
    const std::int64_t rows = args.x.rows - row;
    return {segment,
            {col, static_cast<int>(cols < tile_cols ? cols : tile_cols), row,
             static_cast<int>(rows < block_rows ? rows : block_rows)}};
  }
}

std::int64_t CountUnits(const LinearArgs& args, int tile_cols, int block_rows) {
  std::int64_t units = 0;
  for (int i = 0; i < args.num_segments; ++i)
    units += Ceil(args.segments[i].weight.rows, tile_cols) * Ceil(args.x.rows, block_rows);
  return units;
}

void GemvDots(const ConstTensor& weight, const TileRange& range, const float* x,
              std::int64_t padded, float* dots) {
  for (int n = 0; n < range.cols; ++n) {
    const Bf16* w = weight.Row<Bf16>(range.col + n);
    for (int r = 0; r < range.rows; ++r)
      dots[r * kGemvCols + n] = DotBf16(w, x + r * padded, weight.cols);
  }
}

void Gemv(const LinearArgs& args, CpuContext& context) {
  const std::int64_t padded = Ceil(args.x.cols, kStep) * kStep;
  float* x = context.scratch.Take<float>(args.x.rows * padded);
  for (std::int64_t t = 0; t < args.x.rows; ++t) PadRow(args, t, padded, x);
  const std::int64_t units = CountUnits(args, kGemvCols, kGemvRows);
  ParallelFor(context.team, units, 1, [&](std::int64_t begin, std::int64_t end) {
    float gate[kGemvRows * kGemvCols];
    float up[kGemvRows * kGemvCols];
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const Place at = FindPlace(args, unit, kGemvCols, kGemvRows);
      const bool gated = !at.segment->up_weight.empty();
      GemvDots(at.segment->weight, at.range, x, padded, gate);
      if (gated) GemvDots(at.segment->up_weight, at.range, x, padded, up);
      Finish(args, *at.segment, at.range, {gate, gated ? up : nullptr, kGemvCols});
    }
  });
}

void GemmTile(const LinearArgs& args, const Place& at, const PackedRows& x,
              const TileMemory& memory) {
  float gate[kBlockRows * kTileCols];
  float up[kBlockRows * kTileCols];
  const bool gated = !at.segment->up_weight.empty();
  TileDots(x, at.segment->weight, at.range, memory, gate);
  if (gated) TileDots(x, at.segment->up_weight, at.range, memory, up);
  Finish(args, *at.segment, at.range, {gate, gated ? up : nullptr, kTileCols});
}

void Gemm(const LinearArgs& args, CpuContext& context) {
  const std::int64_t steps = Ceil(args.x.cols, kStep);
  const std::int64_t length = steps * kRegisterLanes;
  float* packed = context.scratch.Take<float>(args.x.rows * kStrands * length);
  ParallelFor(context.team, args.x.rows, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) PackRow(args, t, length, packed);
  });
  const PackedRows x{packed, args.x.rows, length};
  float* memory = context.scratch.Take<float>(context.team.size() * TileFloats(steps));
  ParallelForWorkers(context.team, CountUnits(args, kTileCols, kBlockRows), 1,
                     [&](int worker, std::int64_t begin, std::int64_t end) {
                       const TileMemory mine =
                           CutTileMemory(memory + worker * TileFloats(steps), steps);
                       for (std::int64_t unit = begin; unit < end; ++unit)
                         GemmTile(args, FindPlace(args, unit, kTileCols, kBlockRows), x, mine);
                     });
}

}  // namespace

void Linear(const LinearArgs& args, CpuContext& context) {
  for (int i = 0; i < args.num_segments; ++i) {
    const LinearSegment& segment = args.segments[i];
    K3_CHECK(segment.weight.cols == args.x.cols);
    K3_CHECK(segment.out.cols == segment.weight.rows);
    K3_CHECK(segment.up_weight.empty() || !segment.accumulate);
  }
  if (args.x.rows == 0) return;
  if (args.x.rows <= kGemvRows) {
    Gemv(args, context);
  } else {
    Gemm(args, context);
  }
}

}  // namespace k3::kernels::K3_ISA
