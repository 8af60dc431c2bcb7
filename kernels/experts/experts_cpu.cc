// Three passes: quantise the inputs; gate and up of every (row, slot) pair, expert by expert, so
// that an expert's weights are read once; down, with the sum over experts inside the thread that
// owns the output columns. The down pass reads what the middle one wrote, quantised in between.
#include "kernels/cpu_ops.h"
#include "kernels/experts/mxfp4_dots.h"

namespace k3::kernels::K3_ISA {
namespace {

// Pairs (row, slot) in the order of their experts: those of expert e are order[start[e]] up to
// order[start[e + 1]], rows ascending; pair = row * slots + slot.
struct Grouped {
  std::int32_t* start;    // [E + 1]
  std::int32_t* order;    // [pairs]
  std::int32_t* experts;  // the experts that have a pair, ascending
  int num_experts;
};

Grouped GroupByExpert(const ExpertsArgs& args, Scratch& scratch) {
  const auto slots = static_cast<std::int32_t>(args.ids.cols);
  const std::int64_t pairs = args.x.rows * slots;
  Grouped grouped{scratch.Take<std::int32_t>(args.num_experts + 2),
                  scratch.Take<std::int32_t>(pairs), scratch.Take<std::int32_t>(args.num_experts),
                  0};
  // Counts stand two places up: while pairs are dealt out, start[e + 1] runs from the begin of
  // expert e to its end.
  for (int e = 0; e < args.num_experts + 2; ++e) grouped.start[e] = 0;
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const std::int32_t id = args.ids.Row<std::int32_t>(pair / slots)[pair % slots];
    K3_CHECK(id >= 0);
    K3_CHECK(id < args.num_experts);
    ++grouped.start[id + 2];
  }
  for (int e = 0; e < args.num_experts; ++e) {
    if (grouped.start[e + 2] > 0) grouped.experts[grouped.num_experts++] = e;
    grouped.start[e + 2] += grouped.start[e + 1];
  }
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const std::int32_t id = args.ids.Row<std::int32_t>(pair / slots)[pair % slots];
    grouped.order[grouped.start[id + 1]++] = static_cast<std::int32_t>(pair);
  }
  return grouped;
}

struct Sizes {
  std::int64_t rows, slots, latent, width;
};

// The op's memory beyond its arguments.
struct Work {
  Grouped grouped;
  std::byte* x;        // quantised inputs, one row per row
  float* inner;        // [pairs][width], situ(W1 x, W3 x)
  std::byte* inner_q;  // the same quantised
  float* scales;       // per worker: two blocks of [max(latent, width) / 32][16]
  std::int64_t scales_size;
};

// Sixteen outputs that one worker computes at a time.
struct Strip {
  int expert_index;  // of the experts in use; the down pass takes them all
  std::int64_t row;
  float* scales;
};

const std::uint8_t* PackedOf(const Block& block) {
  return block.weight->packed.Row<std::uint8_t>(block.row);
}

// The sixteen rows that follow, or the same ones at the end.
Block After(const Block& block) {
  const bool more = block.row + kDotRows < block.weight->packed.rows;
  return {block.weight, more ? block.row + kDotRows : block.row};
}

// Up to kMaxInputs pairs of one expert, from order[first] on.
struct PairsOf {
  std::int32_t pair[kMaxInputs];
  QuantRow q[kMaxInputs];
  int count = 0;
};

struct QuantRows {
  std::byte* rows;
  std::int64_t k;
  std::int64_t pairs_per_row;
};

PairsOf TakePairs(const Grouped& grouped, std::int32_t first, std::int32_t end,
                  const QuantRows& from) {
  PairsOf pairs;
  for (; first < end && pairs.count < kMaxInputs; ++first, ++pairs.count) {
    const std::int32_t pair = grouped.order[first];
    pairs.pair[pairs.count] = pair;
    pairs.q[pairs.count] = CutQuantRow(from.rows, pair / from.pairs_per_row, from.k);
  }
  return pairs;
}

// Sixteen columns of one expert's gate and up, for all its pairs.
void GateUp(const ExpertsArgs& args, const Sizes& size, const Work& work, const Strip& strip) {
  const std::int32_t expert = work.grouped.experts[strip.expert_index];
  const Block gate{&args.experts[expert].w1, strip.row};
  const Block up{&args.experts[expert].w3, strip.row};
  float* up_scales = strip.scales + work.scales_size;
  LoadScales(gate, strip.scales);
  LoadScales(up, up_scales);
  PrefetchScales(After(gate));
  PrefetchScales(After(up));
  const std::int32_t begin = work.grouped.start[expert];
  const std::int32_t end = work.grouped.start[expert + 1];
  for (std::int32_t i = begin; i < end; i += kMaxInputs) {
    const PairsOf pairs = TakePairs(work.grouped, i, end, {work.x, size.latent, size.slots});
    float g[kMaxInputs][kDotRows];
    float u[kMaxInputs][kDotRows];
    const bool first = i == begin;
    BlockDots(pairs.count, {gate, strip.scales, pairs.q, first ? PackedOf(up) : nullptr, g});
    BlockDots(pairs.count, {up, up_scales, pairs.q, first ? PackedOf(After(gate)) : nullptr, u});
    for (int p = 0; p < pairs.count; ++p) {
      Store(work.inner + pairs.pair[p] * size.width + strip.row,
            Situ(Load(g[p]), Load(u[p]), args.situ_beta, args.situ_linear_beta));
    }
  }
}

// out[t] += weight * dots, for pairs of one expert.
void AddShares(const ExpertsArgs& args, const PairsOf& pairs, std::int64_t col,
               const float (*dots)[kDotRows]) {
  for (int p = 0; p < pairs.count; ++p) {
    const std::int64_t t = pairs.pair[p] / args.ids.cols;
    const float share = args.weights.Row<float>(t)[pairs.pair[p] % args.ids.cols];
    float* out = args.out.Row<float>(t) + col;
    Store(out, Fma(Set1(share), Load(dots[p]), Load(out)));
  }
}

// Sixteen output columns, summed over all experts: ascending, and so in slot order.
void Down(const ExpertsArgs& args, const Sizes& size, const Work& work, const Strip& strip) {
  for (std::int64_t t = 0; t < size.rows; ++t) Store(args.out.Row<float>(t) + strip.row, Zero());
  for (int i = 0; i < work.grouped.num_experts; ++i) {
    const int following = i + 1 < work.grouped.num_experts ? i + 1 : 0;
    const std::int32_t expert = work.grouped.experts[i];
    const Block block{&args.experts[expert].w2, strip.row};
    const Block next{&args.experts[work.grouped.experts[following]].w2, strip.row};
    LoadScales(block, strip.scales);
    PrefetchScales(next);
    const std::int32_t begin = work.grouped.start[expert];
    const std::int32_t end = work.grouped.start[expert + 1];
    for (std::int32_t j = begin; j < end; j += kMaxInputs) {
      const PairsOf pairs = TakePairs(work.grouped, j, end, {work.inner_q, size.width, 1});
      float dots[kMaxInputs][kDotRows];
      const std::uint8_t* fetch = j == begin ? PackedOf(next) : nullptr;
      BlockDots(pairs.count, {block, strip.scales, pairs.q, fetch, dots});
      AddShares(args, pairs, strip.row, dots);
    }
  }
}

void QuantiseInputs(const ExpertsArgs& args, const Sizes& size, const Work& work,
                    ThreadTeam& team) {
  ParallelFor(team, size.rows, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      QuantiseRow(args.x.Row<float>(t), size.latent, CutQuantRow(work.x, t, size.latent));
  });
}

void QuantiseInner(const Sizes& size, const Work& work, ThreadTeam& team) {
  ParallelFor(team, size.rows * size.slots, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t pair = begin; pair < end; ++pair) {
      QuantiseRow(work.inner + pair * size.width, size.width,
                  CutQuantRow(work.inner_q, pair, size.width));
    }
  });
}

Work TakeWork(const ExpertsArgs& args, const Sizes& size, CpuContext& context) {
  const std::int64_t pairs = size.rows * size.slots;
  const std::int64_t widest = size.latent > size.width ? size.latent : size.width;
  const std::int64_t scales_size = widest / kMxfp4Group * kDotRows;
  Scratch& scratch = context.scratch;
  return {GroupByExpert(args, scratch),
          scratch.Take<std::byte>(size.rows * QuantBytes(size.latent)),
          scratch.Take<float>(pairs * size.width),
          scratch.Take<std::byte>(pairs * QuantBytes(size.width)),
          scratch.Take<float>(std::int64_t{2} * context.team.size() * scales_size),
          scales_size};
}

}  // namespace

void Experts(const ExpertsArgs& args, CpuContext& context) {
  if (args.x.rows == 0) return;
  const Sizes size{args.x.rows, args.ids.cols, args.x.cols, args.experts[0].w1.packed.rows};
  K3_CHECK(size.latent % kMxfp4Group == 0);
  K3_CHECK(size.width % kMxfp4Group == 0);
  K3_CHECK(args.out.cols == size.latent);
  const Work work = TakeWork(args, size, context);
  const auto scales_of = [&](int worker) {
    return work.scales + std::int64_t{2} * worker * work.scales_size;
  };
  QuantiseInputs(args, size, work, context.team);
  const std::int64_t strips = size.width / kDotRows;
  ParallelForWorkers(
      context.team, work.grouped.num_experts * strips, 8,
      [&](int worker, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          GateUp(args, size, work,
                 {static_cast<int>(i / strips), i % strips * kDotRows, scales_of(worker)});
        }
      });
  QuantiseInner(size, work, context.team);
  ParallelForWorkers(context.team, size.latent / kDotRows, 1,
                     [&](int worker, std::int64_t begin, std::int64_t end) {
                       for (std::int64_t i = begin; i < end; ++i)
                         Down(args, size, work, {0, i * kDotRows, scales_of(worker)});
                     });
}

}  // namespace k3::kernels::K3_ISA
