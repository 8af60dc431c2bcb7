// Warm equals cold, of one op: no cut, batch, thread count, instruction set, slot or restored
// snapshot changes a bit of a row.
#include <cstdio>
#include <cstring>

#include <gtest/gtest.h>

#include "kernels/kda_mix/kda_world.h"
#include "kernels/ref_ops.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/cpu_sets.h"

namespace k3::kernels {
namespace {

constexpr int kTokens = 96;

// One program under test.
struct Program {
  std::string name;
  KdaOp op;
  std::int64_t (*window_bytes)(const PageLayout&);
};

class KdaLaw : public testing::Test {
 protected:
  KdaLaw() : seed_(LawSeed(21)), random_(seed_), weights_(3, 32, random_) {
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed_));
    for (int i = 0; i < 3; ++i) streams_.emplace_back(weights_, kTokens, random_);
    for (const CpuOps* set : AllCpuSets())
      programs_.push_back({set->isa,
                           [this, set](const KdaMixArgs& a) { one_.Run(set->kda_mix, a); },
                           set->kda_window_bytes});
    const CpuOps* best = &BestCpuSet();
    programs_.push_back({"two threads",
                         [this, best](const KdaMixArgs& a) { two_.Run(best->kda_mix, a); },
                         best->kda_window_bytes});
    programs_.push_back({"ref", ref::KdaMix, ref::KdaWindowBytes});
  }

  KdaWorld World(const Program& program) const {
    return {weights_, program.op, program.window_bytes(KdaWorld::LayoutFor(weights_))};
  }

  // The whole stream at once: what every other way must equal.
  KdaContext Whole(KdaWorld& world, int stream, int tokens = kTokens) {
    KdaContext context = world.Start(streams_[static_cast<std::size_t>(stream)], 3);
    world.Step({{&context, tokens}});
    return context;
  }

  std::uint64_t seed_;
  Random random_;
  KdaWeights weights_;
  std::vector<KdaStream> streams_;
  CpuRunner one_{1}, two_{2};
  std::vector<Program> programs_;
};

void ExpectRows(const KdaContext& got, const KdaContext& want, int first, int end,
                const std::string& what) {
  const auto bytes = static_cast<std::size_t>((end - first) * got.out->cols()) * sizeof(float);
  ExpectSameBytes(got.out->Row(first), want.out->Row(first), bytes, what);
}

// Kills: another order of sums for another row count, a window left behind by the fold, a fold of
// rows in another order, a tail lost at a cut, rows of the last chunk read twice.
TEST_F(KdaLaw, EveryCutGivesTheSameBits) {
  for (const Program& program : programs_) {
    KdaWorld world = World(program);
    const KdaContext whole = Whole(world, 0);
    for (const int chunk : {1, 2, 3, 7, 16, 17, 33}) {
      KdaContext context = world.Start(streams_[0], 1, chunk % 2 == 0);
      while (context.position < kTokens)
        world.Step({{&context, std::min(chunk, kTokens - context.position)}});
      ExpectRows(context, whole, 0, kTokens, program.name + " chunks of " + std::to_string(chunk));
      EXPECT_EQ(world.State(context.target), world.State(whole.target)) << program.name;
      world.Free(context);
    }
  }
}

// Kills: decode rows that differ from prefill rows, at any place of the chunk where one ends.
TEST_F(KdaLaw, EverySplitIntoPrefillAndDecodeGivesTheSameBits) {
  for (const Program& program : programs_) {
    KdaWorld world = World(program);
    for (int prefill = 1; prefill <= 48; ++prefill) {
      const int tokens = 47 + prefill % 17;
      const KdaContext whole = Whole(world, 1, tokens);
      KdaContext context = world.Start(streams_[1], 0);
      world.PoisonSlot(0);
      world.Step({{&context, std::min(prefill, tokens)}});
      while (context.position < tokens) world.Step({{&context, 1}});
      ExpectRows(context, whole, 0, tokens, program.name + " prefill " + std::to_string(prefill));
      world.Free(whole);
      world.Free(context);
    }
  }
}

// Kills: rows that see their neighbours, a window found by run instead of slot, pages found by
// position in the batch, two contexts in one slot's memory.
TEST_F(KdaLaw, BatchMatesOrderAndSlotsDoNotMatter) {
  for (const Program& program : programs_) {
    KdaWorld world = World(program);
    std::vector<KdaContext> alone, together;
    alone.reserve(3);
    together.reserve(3);
    for (int i = 0; i < 3; ++i) alone.push_back(Whole(world, i));
    for (int i = 0; i < 3; ++i)
      together.push_back(world.Start(streams_[static_cast<std::size_t>(i)], (i + 1) % 3, i == 1));
    for (bool any = true; any;) {
      std::vector<KdaRun> runs;
      for (KdaContext& context : together) {
        const int rows =
            std::min(random_.Below(4) == 0 ? random_.Below(40) : 1, kTokens - context.position);
        if (rows > 0)
          runs.insert(runs.begin() + random_.Below(static_cast<int>(runs.size()) + 1),
                      KdaRun{&context, rows});
      }
      if (!runs.empty()) world.Step(runs);
      any = false;
      for (const KdaContext& context : together) any = any || context.position < kTokens;
    }
    for (std::size_t i = 0; i < 3; ++i)
      ExpectRows(together[i], alone[i], 0, kTokens, program.name + " context " + std::to_string(i));
  }
}

// Kills: an export one chunk late, a tail missing from it, a window needed after a restore, an
// export written for another run, a source written to.
TEST_F(KdaLaw, ExportAndRestoreAtEveryGridPoint) {
  for (const Program& program : programs_) {
    for (int position = kGridTokens; position < kTokens; position += kGridTokens) {
      KdaWorld world = World(program);
      const KdaContext whole = Whole(world, 2);
      KdaContext first = world.Start(streams_[2], 0), mate = world.Start(streams_[0], 1);
      const Pages snapshot = world.NewState(false), other = world.NewState(false);
      const int before = random_.Below(position);
      if (before > 0) world.Step({{&first, before}});
      world.Step({{&mate, 20}, {&first, kTokens - before}},
                 {{1, position, snapshot}, {0, 16, other}});
      ExpectRows(first, whole, 0, kTokens, program.name + " while exporting");
      const std::vector<std::byte> digest = world.Bytes(snapshot);
      world.PoisonSlot(2);
      KdaContext warm = world.Restore(streams_[2], 2, position, snapshot);
      while (warm.position < kTokens)
        world.Step({{&warm, std::min(1 + random_.Below(20), kTokens - warm.position)}});
      ExpectRows(warm, whole, position, kTokens,
                 program.name + " restored at " + std::to_string(position));
      EXPECT_EQ(world.Bytes(snapshot), digest) << program.name << ": a hit wrote into its source";
    }
  }
}

// Kills: a state written per token, or at the end of a run that passes no grid point.
TEST_F(KdaLaw, ARunInsideAChunkWritesNoPage) {
  for (const Program& program : programs_) {
    KdaWorld world = World(program);
    KdaContext context = world.Start(streams_[0], 0);
    const auto source = world.Bytes(context.source), target = world.Bytes(context.target);
    for (int i = 0; i < 5; ++i) world.Step({{&context, 3}});
    EXPECT_EQ(world.Bytes(context.source), source) << program.name;
    EXPECT_EQ(world.Bytes(context.target), target) << program.name;
  }
}

// Kills: an operation that rounds differently on one instruction set; a thread count in the sums.
TEST_F(KdaLaw, InstructionSetsAndThreadsAgree) {
  std::vector<KdaContext> all;
  for (const Program& program : programs_) {
    if (program.name == "ref") continue;
    KdaWorld world = World(program);
    all.push_back(Whole(world, 0));
    ExpectRows(all.back(), all.front(), 0, kTokens, program.name);
  }
}

// Kills: a rollback that needs more than a smaller row count: rows a verify step computed and
// threw away leave something behind.
TEST_F(KdaLaw, RowsTakenBackLeaveNoTrace) {
  for (const Program& program : programs_) {
    KdaWorld world = World(program);
    const KdaContext whole = Whole(world, 0);
    KdaContext context = world.Start(streams_[0], 0);
    world.Step({{&context, 37}});
    KdaContext draft = world.Restore(streams_[1], 0, 37, context.source);
    world.Step({{&draft, 9}});  // another context's tokens at the same positions
    while (context.position < kTokens) world.Step({{&context, 1}});
    ExpectRows(context, whole, 0, kTokens, program.name);
  }
}

}  // namespace
}  // namespace k3::kernels
