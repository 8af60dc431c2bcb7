#include "kernels/mla_attend/mla_attend.h"

#include <cmath>
#include <cstdio>
#include <cstring>

#include <gtest/gtest.h>

#include "kernels/mla_attend/mla_steps.h"
#include "kernels/mla_attend/mla_world.h"
#include "kernels/ref_ops.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/cpu_sets.h"
#include "kernels/testing/golden.h"

namespace k3::kernels {
namespace {

const MlaSteps& StepsOf(const CpuOps& set) {
  const std::string_view isa = set.isa;
  if (isa == "avx512") return avx512::StepsOfMla();
  if (isa == "avx512_emulated") return avx512_emulated::StepsOfMla();
  return isa == "x86_64_v3" ? x86_64_v3::StepsOfMla() : x86_64::StepsOfMla();
}

// Three golden queries of four heads: twelve pairs, two splits.
class GoldenMla {
 public:
  static constexpr int kQueries = 3, kHeads = 4, kNope = 128, kRope = 64, kV = 128, kKv = 512;
  static constexpr int kWidth = kKv + kRope, kPairs = kQueries * kHeads, kRows = 300;

  explicit GoldenMla(const GoldenFile& file)
      : q_(file.Read<float>("mla.q")),
        kv_b_(file.Read<Bf16>("mla.kv_b_proj")),
        visible_(file.Read<std::int32_t>("mla.last_visible_row")),
        pages_((kRows + kGridTokens) * kWidth),
        query_(kPairs, kWidth) {
    std::memset(pages_.data(), 0xff, static_cast<std::size_t>(pages_.size()) * sizeof(float));
    const Matrix<float> rows = file.Read<float>("mla.rows");
    std::memcpy(pages_.data(), rows.Row(0), rows.span().size_bytes());
  }

  void Run(const MlaSteps& steps) {
    for (int h = 0; h < kHeads; ++h) {
      steps.absorb({q_.Row(h), kHeads * (kNope + kRope), kv_b_.Row(h * (kNope + kV)), kKv, kQueries,
                    kNope, kKv, query_.Row(h), kHeads * kWidth});
      for (int t = 0; t < kQueries; ++t)
        std::memcpy(query_.Row(t * kHeads + h) + kKv, q_.Row(t * kHeads + h) + kNope,
                    kRope * sizeof(float));
    }
    Attend(steps);
    const Matrix<float> gate(1, kV);
    for (float& logit : gate.span()) logit = 40.0F;  // sigmoid is 1
    for (int h = 0; h < kHeads; ++h)
      for (int t = 0; t < kQueries; ++t)
        steps.expand({o_lat.Row(t * kHeads + h), kv_b_.Row(h * (kNope + kV) + kNope), 1, kKv, kV,
                      gate.Row(0), 0, out.Row(t * kHeads + h), 0});
  }

  Matrix<float> QueryLatent() const {
    Matrix<float> latent(kPairs, kKv);
    for (int p = 0; p < kPairs; ++p) std::memcpy(latent.Row(p), query_.Row(p), kKv * sizeof(float));
    return latent;
  }

  Matrix<float> lse{kQueries, kHeads}, o_lat{kPairs, kKv}, out{kPairs, kV};

 private:
  void Attend(const MlaSteps& steps) {
    std::vector<std::int32_t> blocks(kRows / kGridTokens + 1);
    std::iota(blocks.begin(), blocks.end(), 0);
    const Buffer<float> query_t(kWidth * kMlaPairs), work(MlaWorkFloats(kWidth));
    const Buffer<float> first(MlaPartialFloats(kKv)), second(MlaPartialFloats(kKv));
    MlaTile tile{};
    tile.latents = {reinterpret_cast<const std::byte*>(pages_.data()),
                    kGridTokens * kWidth * 4,
                    0,
                    blocks.data(),
                    DType::kF32,
                    kWidth,
                    kKv};
    tile.pairs = kPairs;
    const float* query[kMlaPairs];
    int longest = 0;
    for (int p = 0; p < kPairs; ++p) {
      query[p] = query_.Row(p);
      tile.visible[p] = visible_.span()[static_cast<std::size_t>(p / kHeads)] + 1;
      longest = std::max(longest, tile.visible[p]);
    }
    steps.transpose(query, kPairs, kWidth, query_t.data());
    tile.query_t = query_t.data();
    tile.scale = 1.0F / std::sqrt(static_cast<float>(kNope + kRope));
    tile.work = work.data();
    const MlaPartial total = MlaPartialAt(first.data()), next = MlaPartialAt(second.data());
    steps.attend(tile, 0, total);
    for (int split = 1; split * kMlaSplitRows < longest; ++split) {
      steps.attend(tile, split, next);
      steps.merge(tile, split, total, next);
    }
    for (int p = 0; p < kPairs; ++p) {
      steps.finish(total, p, kKv, o_lat.Row(p));
      lse.span()[static_cast<std::size_t>(p)] = total.max[p] + std::log(total.sum[p]);
    }
  }

  Matrix<float> q_;
  Matrix<Bf16> kv_b_;
  Matrix<std::int32_t> visible_;
  Buffer<float> pages_;
  Matrix<float> query_;
};

// Kills: a scale of 128^-0.5 or 576^-0.5, the 64 plain dimensions dropped, W_UV rows taken for
// W_UK's, a split combined without rescaling, rows beyond the query's own.
TEST(MlaAttend, StepsMeetTheGoldenVectors) {
  const auto file = GoldenFile::OpenShared("vectors/ops.safetensors");
  if (!file) return;
  for (const CpuOps* set : AllCpuSets()) {
    GoldenMla golden(*file);
    golden.Run(StepsOf(*set));
    const std::string isa = set->isa;
    ExpectNear(golden.QueryLatent(), file->Read<float>("mla.q_lat"), 2e-5, 0, isa + " q_lat");
    ExpectNear(golden.lse, file->Read<float>("mla.lse"), 2e-5, 0, isa + " lse");
    ExpectNear(golden.o_lat, file->Read<float>("mla.o_lat"), 2e-5, 0, isa + " o_lat");
    ExpectNear(golden.out, file->Read<float>("mla.out"), 2e-5, 0, isa + " out");
  }
}

constexpr MlaShape kSmall = {.heads = 3, .nope = 32, .rope = 16, .v = 32, .kv = 64};

struct Program {
  std::string name;
  MlaOp op;
};

class MlaLaw : public testing::Test {
 protected:
  MlaLaw() : seed_(LawSeed(31)), random_(seed_), weights_(kSmall, random_) {
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed_));
    for (const CpuOps* set : AllCpuSets())
      programs_.push_back(
          {set->isa, [this, set](const MlaAttendArgs& a) { one_.Run(set->mla_attend, a); }});
    programs_.push_back(
        {"two threads", [this](const MlaAttendArgs& a) { two_.Run(BestCpuSet().mla_attend, a); }});
    programs_.push_back({"ref", ref::MlaAttend});
  }

  MlaWorld World(const Program& program, DType dtype, int blocks = 90) const {
    return {weights_, program.op, dtype, blocks};
  }
  static MlaContext Whole(MlaWorld& world, const MlaStream& stream) {
    MlaContext context = world.Start(stream);
    world.Step({{&context, static_cast<int>(stream.q.rows())}});
    return context;
  }

  std::uint64_t seed_;
  Random random_;
  MlaWeights weights_;
  CpuRunner one_{1}, two_{2};
  std::vector<Program> programs_;
};

// Kills: every mistake of the oracle (scale of 128 alone or of the latent width, plain dimensions
// dropped or normed, causal off by one either way, eps, gate, W_UK for W_UV), rows at block and
// split edges 15..17 and 255..257 lost, latents not rounded before their first use.
TEST_F(MlaLaw, CpuAndRefMeetTheOracleAndMistakesShow) {
  const MlaStream stream(kSmall, 70, random_);
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const Matrix<float> right = MlaOracle(weights_, stream, dtype, MlaMistake::kNone).Run();
    for (const Program& program : programs_) {
      MlaWorld world = World(program, dtype);
      // A latent that rounds the other way in bf16 moves an output by about its last place.
      const double tolerance = dtype == DType::kBf16 ? 3e-4 : 3e-6;
      ExpectNear(Whole(world, stream).out, right, tolerance, tolerance, program.name);
    }
    for (int m = 1; m <= static_cast<int>(MlaMistake::kValueRowsOfKey); ++m) {
      const auto wrong = MlaOracle(weights_, stream, dtype, static_cast<MlaMistake>(m)).Run();
      EXPECT_GT(MaxError(wrong.span(), right.span()), 5e-3) << "mistake " << m;
    }
  }
}

// Kills: split edges at 255..257 and 511..513 lost or counted twice, in prefill and in decode.
TEST_F(MlaLaw, LongContextsMeetTheReference) {
  const MlaStream stream(kSmall, 530, random_);
  MlaWorld reference = World(programs_.back(), DType::kF32);
  const MlaContext right = Whole(reference, stream);
  for (const Program& program : programs_) {
    MlaWorld world = World(program, DType::kF32);
    ExpectNear(Whole(world, stream).out, right.out, 3e-6, 3e-6, program.name);
  }
}

// Kills: sums ordered by the tile, a split count chosen by the batch, page rows beyond the length
// multiplied by a zero probability (they are NaN here), a latent of this step read before stored.
TEST_F(MlaLaw, EveryCutGivesTheSameBits) {
  const MlaStream stream(kSmall, 274, random_);
  const std::vector<int> all = {1, 2, 3, 7, 16, 17, 33, 255};
  for (const DType dtype : {DType::kBf16, DType::kF32}) {
    for (const Program& program : programs_) {
      MlaWorld whole_world = World(program, dtype);
      const MlaContext whole = Whole(whole_world, stream);
      for (const int chunk : dtype == DType::kBf16 ? all : std::vector<int>{7, 255}) {
        MlaWorld world = World(program, dtype);
        MlaContext context = world.Start(stream);
        while (context.position < 274)
          world.Step({{&context, std::min(chunk, 274 - context.position)}});
        ExpectSameBits(context.out, whole.out, program.name + " chunk " + std::to_string(chunk));
      }
    }
  }
}

// Kills: rows of another run visible, pages found by the wrong run, lanes that see one another,
// waves of splits that combine in another order.
TEST_F(MlaLaw, BatchMatesAndThreadsDoNotMatter) {
  std::vector<MlaStream> streams;
  for (const int tokens : {40, 300, 90}) streams.emplace_back(kSmall, tokens, random_);
  for (const Program& program : programs_) {
    std::vector<MlaContext> alone, together;
    MlaWorld world = World(program, DType::kBf16);
    for (const MlaStream& stream : streams) alone.push_back(Whole(world, stream));
    for (const MlaStream& stream : streams) together.push_back(world.Start(stream));
    for (bool any = true; any;) {
      std::vector<MlaRun> runs;
      for (MlaContext& context : together) {
        const int left = static_cast<int>(context.out.rows()) - context.position;
        const int rows = std::min(left, random_.Below(3) == 0 ? 1 : random_.Below(60));
        if (rows > 0)
          runs.insert(runs.begin() + random_.Below(static_cast<int>(runs.size()) + 1),
                      MlaRun{&context, rows});
      }
      if (!runs.empty()) world.Step(runs);
      any = false;
      for (const MlaContext& context : together) any = any || context.position < context.out.rows();
    }
    for (std::size_t i = 0; i < streams.size(); ++i)
      ExpectSameBits(together[i].out, alone[i].out, program.name + " " + std::to_string(i));
  }
}

// Kills: a later row of the same step multiplied by a zero probability: here it is NaN.
TEST_F(MlaLaw, ADamagedRowHarmsNoEarlierOne) {
  const MlaStream stream(kSmall, 45, random_);
  for (const Program& program : programs_) {
    MlaWorld world = World(program, DType::kBf16);
    const MlaContext clean = Whole(world, stream);
    const MlaStream damaged = stream.Copy();
    for (float& value : damaged.kv_a.RowSpan(37)) value = std::nanf("");
    const MlaContext got = Whole(world, damaged);
    ExpectSameBytes(got.out.Row(0), clean.out.Row(0),
                    37 * sizeof(float) * static_cast<std::size_t>(got.out.cols()), program.name);
    EXPECT_TRUE(std::isnan(got.out.At(40, 0))) << program.name << ": damage must show";
  }
}

// Kills: an operation that rounds differently on one instruction set; a thread count in the sums.
// Real sizes: 96 lanes of pairs in several tiles, 512 + 64 wide, two splits.
TEST_F(MlaLaw, InstructionSetsAndThreadsAgree) {
  const MlaShape shape = {.heads = 6, .nope = 128, .rope = 64, .v = 128, .kv = 512};
  const MlaWeights weights(shape, random_);
  const MlaStream stream(shape, 263, random_);
  std::vector<Matrix<float>> all;
  for (const Program& program : programs_) {
    if (program.name == "ref" || program.name == "x86_64") continue;
    MlaWorld world(weights, program.op, DType::kBf16, 20);
    MlaContext context = world.Start(stream);
    for (const int rows : {200, 50, 1, 3, 1, 8}) world.Step({{&context, rows}});
    all.push_back(std::move(context.out));
    ExpectSameBits(all.back(), all.front(), program.name);
  }
  std::vector<Matrix<float>> small;
  const MlaStream short_stream(kSmall, 270, random_);
  for (const Program& program : programs_) {
    if (program.name == "ref") continue;
    MlaWorld world = World(program, DType::kF32);
    small.push_back(Whole(world, short_stream).out);
    ExpectSameBits(small.back(), small.front(), program.name);
  }
}

}  // namespace
}  // namespace k3::kernels
