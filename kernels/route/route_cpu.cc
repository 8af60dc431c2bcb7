#include "kernels/cpu_ops.h"
#include "kernels/simd/simd.h"

namespace k3::kernels::K3_ISA {
namespace {

// The best k so far, best first; equal keys keep the lower id first.
struct Chosen {
  float* keys;
  std::int32_t* ids;
  int size;
  int capacity;
};

// Ids must be offered ascending. A NaN counts as minus infinity.
void Offer(Chosen& chosen, float key, std::int32_t id) {
  if (!(key == key)) key = -__builtin_inff();
  if (chosen.size == chosen.capacity && !(key > chosen.keys[chosen.size - 1])) return;
  int at = chosen.size < chosen.capacity ? chosen.size++ : chosen.size - 1;
  for (; at > 0 && key > chosen.keys[at - 1]; --at) {
    chosen.keys[at] = chosen.keys[at - 1];
    chosen.ids[at] = chosen.ids[at - 1];
  }
  chosen.keys[at] = key;
  chosen.ids[at] = id;
}

void SortAscending(std::int32_t* ids, int count) {
  for (int i = 1; i < count; ++i) {
    const std::int32_t id = ids[i];
    int at = i;
    for (; at > 0 && ids[at - 1] > id; --at) ids[at] = ids[at - 1];
    ids[at] = id;
  }
}

// Sigmoid scores of one row; true when one of them is NaN.
bool Scores(const float* logits, std::int64_t count, float* scores) {
  bool damaged = false;
  for (std::int64_t e = 0; e < count; e += kLanes) {
    const auto lanes = static_cast<int>(count - e < kLanes ? count - e : kLanes);
    StoreFirst(scores + e, Sigmoid(LoadFirst(logits + e, lanes)), lanes);
  }
  for (std::int64_t e = 0; e < count; ++e) damaged = damaged || !(scores[e] == scores[e]);
  return damaged;
}

struct RowMemory {
  float* scores;  // [E]
  float* keys;    // [K]
};

void RouteRow(const RouteArgs& args, std::int64_t t, const RowMemory& memory) {
  const auto experts = static_cast<std::int32_t>(args.logits.cols);
  const int k = static_cast<int>(args.ids.cols);
  const float* bias = args.bias.Row<float>(0);
  std::int32_t* ids = args.ids.Row<std::int32_t>(t);
  float* weights = args.weights.Row<float>(t);
  const bool damaged = Scores(args.logits.Row<float>(t), experts, memory.scores);
  Chosen chosen{memory.keys, ids, 0, k};
  for (std::int32_t e = 0; e < experts; ++e) Offer(chosen, memory.scores[e] + bias[e], e);
  SortAscending(ids, k);
  float sum = 0;
  for (int j = 0; j < k; ++j) sum = sum + memory.scores[ids[j]];
  const float divisor = args.renormalize ? sum + 1e-20F : 1.0F;
  for (int j = 0; j < k; ++j) {
    const float weight = memory.scores[ids[j]] / divisor * args.scaling;
    weights[j] = damaged ? __builtin_nanf("") : weight;
  }
}

// By one thread, after all rows: whole numbers, and few of them.
void AddLoad(const RouteArgs& args) {
  if (args.load.empty()) return;
  K3_CHECK(args.load.cols == args.logits.cols);
  auto* load = args.load.Row<std::int32_t>(0);
  for (std::int64_t t = 0; t < args.ids.rows; ++t) {
    const auto* ids = args.ids.Row<std::int32_t>(t);
    for (std::int64_t j = 0; j < args.ids.cols; ++j) ++load[ids[j]];
  }
}

}  // namespace

void Route(const RouteArgs& args, CpuContext& context) {
  K3_CHECK(args.ids.cols <= args.logits.cols);
  const std::int64_t experts = args.logits.cols;
  const std::int64_t k = args.ids.cols;
  const int workers = context.team.size();
  float* scores = context.scratch.Take<float>(workers * experts);
  float* keys = context.scratch.Take<float>(workers * k);
  ParallelForWorkers(context.team, args.logits.rows, 4,
                     [&](int worker, std::int64_t begin, std::int64_t end) {
                       const RowMemory memory{scores + worker * experts, keys + worker * k};
                       for (std::int64_t t = begin; t < end; ++t) RouteRow(args, t, memory);
                     });
  AddLoad(args);
}

}  // namespace k3::kernels::K3_ISA
