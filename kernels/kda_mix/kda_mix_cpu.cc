// The op: cuts a run into pieces of its 16-row chunks, finds each row's raw inputs, folds at the
// grid, exports. One task is one head of one run, so threads split outputs only.
#include <cstring>

#include "kernels/cpu_ops.h"
#include "kernels/kda_mix/kda_mix.h"
#include "kernels/kda_mix/kda_rows.h"

namespace k3::kernels::K3_ISA {
namespace {

constexpr int kInputs = 3;  // q, k, v: the order in tails and windows
constexpr int kRawRows = kGridTokens - 1;
// Rows per head of a window, `dim` floats each: raw inputs, then ki, u and G of KdaChunk. Every one
// is kept per row, so that taking rows back is a smaller row count and nothing else.
constexpr int kWindowRows = kRawRows * kInputs + 3 * kGridTokens;

// What one worker needs; reused for every task it claims.
struct Work {
  float* chunk;   // key_t, u and G of a chunk that never leaves this call: [3][16][dim]
  float* inputs;  // q, k, v after the convolution: [3][16][dim]
  float* out;     // [16][dim]
  float* steps;   // KdaWorkFloats(dim)
};

constexpr std::int64_t WorkFloats(std::int64_t dim) {
  return dim * kGridTokens * 7 + KdaWorkFloats(dim);
}

Work WorkAt(float* base, std::int64_t dim) {
  const std::int64_t matrix = kGridTokens * dim;
  return {base, base + 3 * matrix, base + 6 * matrix, base + 7 * matrix};
}

KdaChunk ChunkAt(float* base, std::int64_t dim) {
  return {base, base + dim * kGridTokens, base + dim * kGridTokens * 2};
}

struct Task {
  const KdaMixArgs& args;
  int run;
  int head;
  int dim;
  float* window;
  Work work;
};

// Rows [first, first + rows) of one chunk, given in this call as rows from `row` on.
struct Piece {
  int first;
  int rows;
  int row;
  const float* unit;  // S and tail at the chunk's start
};

std::int64_t StateFloats(std::int64_t dim) {
  return dim * dim;
}

float* Unit(const Task& t, const std::int32_t* pages) {
  const PageLayout& layout = *t.args.layout;
  const std::int64_t page = pages[layout.UnitPage(t.args.layer, t.head)];
  std::byte* bytes = t.args.pages + page * layout.page_bytes + layout.UnitOffset(t.head);
  return reinterpret_cast<float*>(bytes);
}

// Raw input `which` of row i of the chunk; rows -3..-1 are the tail.
const float* RawRow(const Task& t, const Piece& p, int which, int i) {
  const std::int64_t dim = t.dim;
  if (i < 0) return p.unit + StateFloats(dim) + ((kTailRows + i) * kInputs + which) * dim;
  if (i < p.first) return t.window + (i * kInputs + which) * dim;
  const ConstTensor& input = which == 0 ? t.args.q : which == 1 ? t.args.k : t.args.v;
  return input.Row<float>(p.row + i - p.first) + t.head * dim;
}

void ConvInputs(const Task& t, const Piece& p) {
  const ConstTensor* weights[kInputs] = {&t.args.q_conv, &t.args.k_conv, &t.args.v_conv};
  for (int which = 0; which < kInputs; ++which) {
    KdaConv conv{{},
                 weights[which]->Row<float>(std::int64_t{t.head} * t.dim),
                 t.dim,
                 p.rows,
                 t.work.inputs + std::int64_t{which} * kGridTokens * t.dim};
    for (int i = 0; i < kTailRows + p.rows; ++i)
      conv.input[i] = RawRow(t, p, which, p.first + i - kTailRows);
    StepsOfKda().conv(conv);
  }
}

// A whole chunk is over before anybody else looks: its rows need no window.
bool IsWhole(const Piece& p) {
  return p.rows == kGridTokens;
}

KdaChunk ChunkOf(const Task& t, const Piece& p) {
  if (IsWhole(p)) return ChunkAt(t.work.chunk, t.dim);
  return ChunkAt(t.window + std::int64_t{kRawRows} * kInputs * t.dim, t.dim);
}

void ComputeRows(const Task& t, const Piece& p) {
  const KdaMixArgs& a = t.args;
  const std::int64_t matrix = std::int64_t{kGridTokens} * t.dim;
  const std::int64_t channel = std::int64_t{t.head} * t.dim;
  ConvInputs(t, p);
  StepsOfKda().rows(KdaRows{.dim = t.dim,
                            .first = p.first,
                            .rows = p.rows,
                            .chunk = ChunkOf(t, p),
                            .state = p.unit,
                            .q = t.work.inputs,
                            .k = t.work.inputs + matrix,
                            .v = t.work.inputs + 2 * matrix,
                            .z = a.z.Row<float>(p.row) + channel,
                            .z_stride = a.z.stride,
                            .dt_bias = a.dt_bias.Row<float>(0) + channel,
                            .beta = a.beta.Row<float>(p.row) + t.head,
                            .beta_stride = a.beta.stride,
                            .a_log = a.a_log.Row<float>(0)[t.head],
                            .lower_bound = a.lower_bound,
                            .work = t.work.steps,
                            .out = t.work.out});
  for (int r = 0; r < p.rows; ++r) {
    StepsOfKda().gated_norm(KdaGatedNorm{t.work.out + std::int64_t{r} * t.dim,
                                         a.o_norm.Row<float>(0),
                                         a.gate.Row<float>(p.row + r) + channel, t.dim, a.eps,
                                         a.out.Row<float>(p.row + r) + channel});
  }
}

void KeepRawRows(const Task& t, const Piece& p) {
  for (int i = p.first; i < p.first + p.rows; ++i)
    for (int which = 0; which < kInputs; ++which)
      std::memcpy(t.window + (std::int64_t{i} * kInputs + which) * t.dim, RawRow(t, p, which, i),
                  static_cast<std::size_t>(t.dim) * sizeof(float));
}

void ExportUnit(const Task& t, const float* unit, int position) {
  const BatchView& batch = *t.args.batch;
  for (int e = 0; e < batch.exports; ++e) {
    if (batch.export_run[e] != t.run) continue;
    if (batch.export_position[e] != position) continue;
    const std::int32_t* pages = batch.export_pages + std::int64_t{e} * batch.state_pages;
    std::memcpy(Unit(t, pages), unit, static_cast<std::size_t>(t.args.layout->unit_bytes));
  }
}

// S and tail move to the next grid point, from the unit read so far into the run's own.
void FoldChunk(const Task& t, const Piece& p, float* target) {
  const std::int64_t dim = t.dim;
  StepsOfKda().fold(KdaFold{t.dim, ChunkOf(t, p), p.unit, target, t.work.steps});
  for (int i = 0; i < kTailRows; ++i)
    for (int which = 0; which < kInputs; ++which)
      std::memcpy(target + StateFloats(dim) + (i * kInputs + which) * dim,
                  RawRow(t, p, which, kGridTokens - kTailRows + i),
                  static_cast<std::size_t>(dim) * sizeof(float));
}

void MixHead(const Task& t) {
  const BatchView& batch = *t.args.batch;
  const std::int64_t pages = std::int64_t{t.run} * batch.state_pages;
  float* const target = Unit(t, batch.state_target + pages);
  const float* unit = Unit(t, batch.state_source + pages);
  int row = batch.run_first_row[t.run];
  const int end = batch.run_first_row[t.run + 1];
  int position = batch.run_position[t.run];
  while (row < end) {
    const int first = position % kGridTokens;
    const int rows = end - row < kGridTokens - first ? end - row : kGridTokens - first;
    const Piece piece{first, rows, row, unit};
    ComputeRows(t, piece);
    row += rows;
    position += rows;
    if (first + rows < kGridTokens) {
      KeepRawRows(t, piece);
      continue;
    }
    FoldChunk(t, piece, target);
    ExportUnit(t, target, position);
    unit = target;
  }
}

// An export the run never passes would leave its pages unwritten and yet be published.
void CheckExports(const BatchView& batch) {
  for (int e = 0; e < batch.exports; ++e) {
    const int run = batch.export_run[e];
    const int rows = batch.run_first_row[run + 1] - batch.run_first_row[run];
    K3_CHECK(batch.export_position[e] % kGridTokens == 0);
    K3_CHECK(batch.export_position[e] > batch.run_position[run]);
    K3_CHECK(batch.export_position[e] <= batch.run_position[run] + rows);
  }
}

}  // namespace

std::int64_t KdaWindowBytes(const PageLayout& layout) {
  return std::int64_t{layout.geometry.kda_heads} * kWindowRows * layout.geometry.kda_head_dim *
         SizeOf(DType::kF32);
}

void KdaMix(const KdaMixArgs& args, CpuContext& context) {
  const PageGeometry& geometry = args.layout->geometry;
  K3_CHECK(geometry.kda_head_dim % 16 == 0);
  K3_CHECK(args.lower_bound >= -5.0F);
  K3_CHECK(args.lower_bound <= 0.0F);
  K3_CHECK(args.window_slot_bytes >= KdaWindowBytes(*args.layout));
  CheckExports(*args.batch);
  const int dim = geometry.kda_head_dim;
  const int heads = geometry.kda_heads;
  auto* const work = context.scratch.Take<float>(context.team.size() * WorkFloats(dim));
  const auto mix = [&](int worker, std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const auto run = static_cast<int>(task / heads);
      const auto head = static_cast<int>(task % heads);
      std::byte* slot = args.window + args.batch->run_slot[run] * args.window_slot_bytes;
      float* window = reinterpret_cast<float*>(slot) + std::int64_t{head} * kWindowRows * dim;
      MixHead(Task{args, run, head, dim, window, WorkAt(work + worker * WorkFloats(dim), dim)});
    }
  };
  ParallelForWorkers(context.team, std::int64_t{args.batch->runs} * heads, 1, mix);
}

}  // namespace k3::kernels::K3_ISA
