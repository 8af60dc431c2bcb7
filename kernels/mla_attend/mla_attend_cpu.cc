// The op: stores the step's latent rows, then works through the step in panels of rows, so that
// W_UK and W_UV are read once per panel and the panel's queries fit memory made for one.
#include <cstring>

#include "kernels/cpu_ops.h"
#include "kernels/mla_attend/mla_attend.h"
#include "kernels/mla_attend/mla_steps.h"
#include "kernels/simd/row_sums.h"

namespace k3::kernels::K3_ISA {
namespace {

constexpr int kPanelRows = 64;
constexpr int kAbsorbCols = 128;  // columns of one task
constexpr int kExpandOutputs = 32;

// Rows of one run in a panel, at most 16: they and as many heads as fill 16 pairs are a tile.
struct Segment {
  int run;
  int row;  // of the step
  int rows;
  int first_tile;
  int heads_per_tile;
};

struct Panel {
  int row;
  int rows;
  int segments;
  int tiles;
  Segment segment[kPanelRows];
};

struct Op {
  const MlaAttendArgs& args;
  CpuContext& context;
  int width;
  float* query;        // [heads][panel rows][width]: q_lat, then the plain dimensions
  float* latent;       // [heads][panel rows][kv]: o_lat
  float* workers;      // WorkerFloats() each
  float* shared;       // partials of a wave of splits
  float* shared_tile;  // query_t and total of the tile in waves
};

std::int64_t WorkerFloats(const Op& op) {
  return MlaWorkFloats(op.width) + std::int64_t{op.width} * kMlaPairs +
         2 * MlaPartialFloats(op.args.kv_rank);
}
int WaveSplits(const Op& op) {
  return 2 * op.context.team.size();
}

int RunOf(const BatchView& batch, int row) {
  int run = 0;
  while (batch.run_first_row[run + 1] <= row) ++run;
  return run;
}
int PositionOf(const BatchView& batch, int run, int row) {
  return batch.run_position[run] + row - batch.run_first_row[run];
}

void StoreLatentRow(const MlaAttendArgs& a, int row) {
  const BatchView& batch = *a.batch;
  const int run = RunOf(batch, row);
  const int position = PositionOf(batch, run, row);
  const std::int64_t block = std::int64_t{run} * batch.latent_stride + position / kGridTokens;
  std::byte* to = a.pages + batch.latent_pages[block] * a.layout->page_bytes +
                  a.layout->LatentOffset(a.layer, position % kGridTokens);
  const float* from = a.kv_a.Row<float>(row);
  const Bf16* weight = a.kv_norm.Row<Bf16>(0);
  const float scale = InverseRms(from, a.kv_rank, a.kv_norm_eps);
  const bool narrow = a.layout->geometry.latent_dtype == DType::kBf16;
  for (int c = 0; c < a.kv_rank + a.rope_dim; ++c) {
    const float value = c < a.kv_rank ? from[c] * scale * ToFloat(weight[c]) : from[c];
    if (narrow) {
      reinterpret_cast<Bf16*>(to)[c] = ToBf16(value);
    } else {
      reinterpret_cast<float*>(to)[c] = value;
    }
  }
}

Panel MakePanel(const Op& op, int row) {
  const BatchView& batch = *op.args.batch;
  Panel panel{};
  panel.row = row;
  panel.rows = batch.rows - row < kPanelRows ? batch.rows - row : kPanelRows;
  const int end = row + panel.rows;
  int run = RunOf(batch, row);
  while (row < end) {
    while (batch.run_first_row[run + 1] <= row) ++run;
    int last = batch.run_first_row[run + 1] < end ? batch.run_first_row[run + 1] : end;
    if (last - row > kMlaPairs) last = row + kMlaPairs;
    const int heads = kMlaPairs / (last - row);
    panel.segment[panel.segments++] = {run, row, last - row, panel.tiles, heads};
    panel.tiles += (op.args.heads + heads - 1) / heads;
    row = last;
  }
  return panel;
}

float* QueryAt(const Op& op, int head, int panel_row) {
  return op.query + (std::int64_t{head} * kPanelRows + panel_row) * op.width;
}
float* LatentAt(const Op& op, int head, int panel_row) {
  return op.latent + (std::int64_t{head} * kPanelRows + panel_row) * op.args.kv_rank;
}

void AbsorbTask(const Op& op, const Panel& panel, int head, int col) {
  const MlaAttendArgs& a = op.args;
  const int cols = a.kv_rank - col < kAbsorbCols ? a.kv_rank - col : kAbsorbCols;
  const std::int64_t channel = std::int64_t{head} * (a.nope_dim + a.rope_dim);
  const Bf16* weight = a.kv_b.Row<Bf16>(std::int64_t{head} * (a.nope_dim + a.v_dim));
  StepsOfMla().absorb(MlaAbsorb{a.q.Row<float>(panel.row) + channel, a.q.stride, weight + col,
                                a.kv_b.stride, panel.rows, a.nope_dim, cols,
                                QueryAt(op, head, 0) + col, op.width});
  if (col > 0) return;
  for (int r = 0; r < panel.rows; ++r)
    std::memcpy(QueryAt(op, head, r) + a.kv_rank,
                a.q.Row<float>(panel.row + r) + channel + a.nope_dim,
                static_cast<std::size_t>(a.rope_dim) * sizeof(float));
}

void AbsorbPanel(const Op& op, const Panel& panel) {
  const int blocks = (op.args.kv_rank + kAbsorbCols - 1) / kAbsorbCols;
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task)
      AbsorbTask(op, panel, static_cast<int>(task / blocks),
                 static_cast<int>(task % blocks) * kAbsorbCols);
  };
  ParallelFor(op.context.team, std::int64_t{op.args.heads} * blocks, 1, body);
}

// A tile and where its pairs came from.
struct PlacedTile {
  MlaTile tile;
  int head[kMlaPairs];
  int panel_row[kMlaPairs];
  int splits;
};

PlacedTile MakeTile(const Op& op, const Panel& panel, int index, float* query_t) {
  const MlaAttendArgs& a = op.args;
  const BatchView& batch = *a.batch;
  int at = panel.segments - 1;
  while (panel.segment[at].first_tile > index) --at;
  const Segment& segment = panel.segment[at];
  PlacedTile placed{};
  MlaTile& tile = placed.tile;
  tile.latents = {a.pages,
                  a.layout->page_bytes,
                  a.layout->LatentOffset(a.layer, 0),
                  batch.latent_pages + std::int64_t{segment.run} * batch.latent_stride,
                  a.layout->geometry.latent_dtype,
                  op.width,
                  a.kv_rank};
  tile.scale = 1.0F / __builtin_sqrtf(static_cast<float>(a.nope_dim + a.rope_dim));
  tile.query_t = query_t;
  const float* query[kMlaPairs];
  const int first_head = (index - segment.first_tile) * segment.heads_per_tile;
  for (int h = first_head; h < a.heads && h < first_head + segment.heads_per_tile; ++h) {
    for (int r = 0; r < segment.rows; ++r) {
      const int pair = tile.pairs++;
      placed.head[pair] = h;
      placed.panel_row[pair] = segment.row + r - panel.row;
      query[pair] = QueryAt(op, h, placed.panel_row[pair]);
      tile.visible[pair] = PositionOf(batch, segment.run, segment.row + r) + 1;
    }
  }
  const int longest = PositionOf(batch, segment.run, segment.row + segment.rows - 1) + 1;
  placed.splits = (longest + kMlaSplitRows - 1) / kMlaSplitRows;
  StepsOfMla().transpose(query, tile.pairs, op.width, query_t);
  return placed;
}

void FinishTile(const Op& op, const PlacedTile& placed, const MlaPartial& total) {
  for (int p = 0; p < placed.tile.pairs; ++p)
    StepsOfMla().finish(total, p, op.args.kv_rank,
                        LatentAt(op, placed.head[p], placed.panel_row[p]));
}

// One worker, all splits of the tile.
void AttendAlone(const Op& op, const Panel& panel, int index, int worker) {
  float* work = op.workers + worker * WorkerFloats(op);
  float* query_t = work + MlaWorkFloats(op.width);
  float* partials = query_t + std::int64_t{op.width} * kMlaPairs;
  const MlaPartial total = MlaPartialAt(partials);
  const MlaPartial next = MlaPartialAt(partials + MlaPartialFloats(op.args.kv_rank));
  PlacedTile placed = MakeTile(op, panel, index, query_t);
  placed.tile.work = work;
  StepsOfMla().attend(placed.tile, 0, total);
  for (int split = 1; split < placed.splits; ++split) {
    StepsOfMla().attend(placed.tile, split, next);
    StepsOfMla().merge(placed.tile, split, total, next);
  }
  FinishTile(op, placed, total);
}

// All workers on one tile, a wave of splits at a time, merged in order: the same bits.
void AttendInWaves(const Op& op, const Panel& panel, int index) {
  const std::int64_t partial_floats = MlaPartialFloats(op.args.kv_rank);
  const MlaPartial total = MlaPartialAt(op.shared_tile + std::int64_t{op.width} * kMlaPairs);
  const PlacedTile placed = MakeTile(op, panel, index, op.shared_tile);
  for (int first = 0; first < placed.splits; first += WaveSplits(op)) {
    const int left = placed.splits - first;
    const int count = left < WaveSplits(op) ? left : WaveSplits(op);
    const auto body = [&](int worker, std::int64_t begin, std::int64_t end) {
      MlaTile mine = placed.tile;
      mine.work = op.workers + worker * WorkerFloats(op);
      for (std::int64_t i = begin; i < end; ++i)
        StepsOfMla().attend(mine, first + static_cast<int>(i),
                            MlaPartialAt(op.shared + i * partial_floats));
    };
    ParallelForWorkers(op.context.team, count, 1, body);
    if (first == 0)
      std::memcpy(total.max, op.shared, static_cast<std::size_t>(partial_floats) * sizeof(float));
    for (int i = first == 0 ? 1 : 0; i < count; ++i)
      StepsOfMla().merge(placed.tile, first + i, total,
                         MlaPartialAt(op.shared + i * partial_floats));
  }
  FinishTile(op, placed, total);
}

void AttendPanel(const Op& op, const Panel& panel) {
  ThreadTeam& team = op.context.team;
  if (panel.tiles < 2 * team.size() && team.size() > 1) {
    for (int tile = 0; tile < panel.tiles; ++tile) AttendInWaves(op, panel, tile);
    return;
  }
  ParallelForWorkers(team, panel.tiles, 1, [&](int worker, std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile)
      AttendAlone(op, panel, static_cast<int>(tile), worker);
  });
}

void ExpandPanel(const Op& op, const Panel& panel) {
  const MlaAttendArgs& a = op.args;
  const int blocks = (a.v_dim + kExpandOutputs - 1) / kExpandOutputs;
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const auto head = static_cast<int>(task / blocks);
      const int first = static_cast<int>(task % blocks) * kExpandOutputs;
      const int outputs = a.v_dim - first < kExpandOutputs ? a.v_dim - first : kExpandOutputs;
      const std::int64_t row = std::int64_t{head} * (a.nope_dim + a.v_dim) + a.nope_dim + first;
      const std::int64_t channel = std::int64_t{head} * a.v_dim + first;
      StepsOfMla().expand(MlaExpand{LatentAt(op, head, 0), a.kv_b.Row<Bf16>(row), panel.rows,
                                    a.kv_rank, outputs, a.gate.Row<float>(panel.row) + channel,
                                    a.gate.stride, a.out.Row<float>(panel.row) + channel,
                                    a.out.stride});
    }
  };
  ParallelFor(op.context.team, std::int64_t{a.heads} * blocks, 1, body);
}

Op MakeOp(const MlaAttendArgs& a, CpuContext& context) {
  Op op{a, context, a.kv_rank + a.rope_dim, nullptr, nullptr, nullptr, nullptr, nullptr};
  const std::int64_t rows = std::int64_t{a.heads} * kPanelRows;
  const std::int64_t partial = MlaPartialFloats(a.kv_rank);
  op.query = context.scratch.Take<float>(rows * op.width);
  op.latent = context.scratch.Take<float>(rows * a.kv_rank);
  op.workers = context.scratch.Take<float>(context.team.size() * WorkerFloats(op));
  op.shared = context.scratch.Take<float>(WaveSplits(op) * partial);
  op.shared_tile = context.scratch.Take<float>(std::int64_t{op.width} * kMlaPairs + partial);
  return op;
}

}  // namespace

void MlaAttend(const MlaAttendArgs& args, CpuContext& context) {
  K3_CHECK(args.kv_rank % kLanes == 0);
  K3_CHECK(args.rope_dim % kLanes == 0);
  K3_CHECK(args.v_dim % kLanes == 0);
  K3_CHECK(args.kv_rank + args.rope_dim == args.layout->geometry.latent_width);
  K3_CHECK(args.kv_b.stride == args.kv_rank);
  const auto store = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) StoreLatentRow(args, static_cast<int>(row));
  };
  ParallelFor(context.team, args.batch->rows, 8, store);
  const Op op = MakeOp(args, context);
  for (int row = 0; row < args.batch->rows; row += kPanelRows) {
    const Panel panel = MakePanel(op, row);
    AbsorbPanel(op, panel);
    AttendPanel(op, panel);
    ExpandPanel(op, panel);
  }
}

}  // namespace k3::kernels::K3_ISA
