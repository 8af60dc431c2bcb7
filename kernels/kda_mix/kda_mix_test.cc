#include "kernels/kda_mix/kda_mix.h"

#include <cstring>

#include <gtest/gtest.h>

#include "kernels/kda_mix/kda_oracle.h"
#include "kernels/kda_mix/kda_rows.h"
#include "kernels/kda_mix/kda_world.h"
#include "kernels/ref_ops.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/cpu_sets.h"
#include "kernels/testing/golden.h"

namespace k3::kernels {
namespace {

const KdaSteps& StepsOf(const CpuOps& set) {
  const std::string_view isa = set.isa;
  if (isa == "avx512") return avx512::StepsOfKda();
  if (isa == "avx512_emulated") return avx512_emulated::StepsOfKda();
  return isa == "x86_64_v3" ? x86_64_v3::StepsOfKda() : x86_64::StepsOfKda();
}

// Rows [0, 48) of one golden head, 16 at a time, through rows and fold.
struct GoldenHead {
  static constexpr int kDim = 128, kHeads = 3, kTokens = 48;

  GoldenHead(const GoldenFile& file, int head, bool zero_state)
      : state(kDim, kDim), out(kTokens, kDim), q(kTokens, kDim), k(kTokens, kDim) {
    if (!zero_state) {
      const Matrix<float> all = file.Read<float>("kda.state_in");
      for (int r = 0; r < kDim; ++r)
        std::memcpy(state.Row(r), all.Row(head * kDim + r), kDim * sizeof(float));
    }
    CopyHead(file, "kda.q", head, q);
    CopyHead(file, "kda.k", head, k);
  }

  static void CopyHead(const GoldenFile& file, const char* name, int head,
                       const Matrix<float>& to) {
    const Matrix<float> all = file.Read<float>(name);
    for (int t = 0; t < kTokens; ++t)
      std::memcpy(to.Row(t), all.Row(t * kHeads + head), kDim * sizeof(float));
  }

  void Run(const GoldenFile& file, int head, const KdaSteps& steps) {
    const Matrix<float> v(kTokens, kDim);
    CopyHead(file, "kda.v", head, v);
    const Matrix<float> z = file.Read<float>("kda.z"), beta = file.Read<float>("kda.beta_logit");
    const Matrix<float> bias = file.Read<float>("kda.dt_bias");
    const Matrix<float> a_log = file.Read<float>("kda.A_log");
    const Buffer<float> work(KdaWorkFloats(kDim)), window(3 * kGridTokens * kDim);
    const KdaChunk chunk{window.data(), window.data() + kGridTokens * kDim,
                         window.data() + 2 * kGridTokens * kDim};
    for (int t = 0; t < kTokens; t += kGridTokens) {
      steps.rows({.dim = kDim,
                  .first = 0,
                  .rows = kGridTokens,
                  .chunk = chunk,
                  .state = state.Row(0),
                  .q = q.Row(t),
                  .k = k.Row(t),
                  .v = v.Row(t),
                  .z = z.Row(t * kHeads + head),
                  .z_stride = kHeads * kDim,
                  .dt_bias = bias.Row(head),
                  .beta = beta.Row(t) + head,
                  .beta_stride = kHeads,
                  .a_log = a_log.span()[static_cast<std::size_t>(head)],
                  .lower_bound = -5.0F,
                  .work = work.data(),
                  .out = out.Row(t)});
      steps.fold({kDim, chunk, state.Row(0), state.Row(0), work.data()});
    }
  }

  Matrix<float> state, out, q, k;
};

Matrix<float> HeadOf(const GoldenFile& file, const char* name, int head) {
  Matrix<float> one(GoldenHead::kTokens, GoldenHead::kDim);
  GoldenHead::CopyHead(file, name, head, one);
  return one;
}

// Kills: read before update, delta against the undecayed state, q scale forgotten or twice, A_log
// per channel, a softplus gate, subnormals flushed at 16 gates of -5, and L2 eps on the mean (the
// tiny rows k[3] and q[7] only).
TEST(KdaMix, RowsMeetTheGoldenVectors) {
  const auto file = GoldenFile::OpenShared("vectors/ops.safetensors");
  if (!file) return;
  for (const CpuOps* set : AllCpuSets()) {
    for (int head = 0; head < GoldenHead::kHeads; ++head) {
      for (const bool zero : {false, true}) {
        GoldenHead run(*file, head, zero);
        run.Run(*file, head, StepsOf(*set));
        const std::string what = std::string(set->isa) + " head " + std::to_string(head);
        ExpectNear(run.out, HeadOf(*file, zero ? "kda.out_zero_state" : "kda.out", head), 2e-6, 0,
                   what + " out");
        ExpectNear(run.q, HeadOf(*file, "kda.q_norm", head), 1e-7, 1e-6, what + " q_norm");
        ExpectNear(run.k, HeadOf(*file, "kda.k_norm", head), 1e-7, 1e-6, what + " k_norm");
        const Matrix<float> states =
            file->Read<float>(zero ? "kda.state_out_zero_state" : "kda.state_out");
        ExpectNear(run.state.span(), {states.Row(head * 128), static_cast<std::size_t>(128 * 128)},
                   1e-5, 0, what + " state");
      }
    }
  }
}

// Kills: reversed taps, a missing SiLU, a tail read newest first.
TEST(KdaMix, ConvolutionMeetsTheGoldenVectors) {
  const auto file = GoldenFile::OpenShared("vectors/ops.safetensors");
  if (!file) return;
  const Matrix<float> input = file->Read<float>("conv.input"),
                      weight = file->Read<float>("conv.weight"),
                      tail = file->Read<float>("conv.tail_in");
  const Matrix<float> zero(kTailRows, 384), out(11, 384);
  for (const CpuOps* set : AllCpuSets()) {
    for (const bool with_tail : {false, true}) {
      KdaConv conv{{}, weight.Row(0), 384, 11, out.Row(0)};
      for (int i = 0; i < kTailRows; ++i) conv.input[i] = with_tail ? tail.Row(i) : zero.Row(i);
      for (int i = 0; i < 11; ++i) conv.input[kTailRows + i] = input.Row(i);
      StepsOf(*set).conv(conv);
      ExpectNear(out, file->Read<float>(with_tail ? "conv.out" : "conv.out_zero_tail"), 1e-5, 0,
                 set->isa);
    }
  }
}

// Kills: sigmoid(gate) before the norm, a norm over all heads, eps outside the root.
TEST(KdaMix, GatedNormMeetsTheGoldenVectors) {
  const auto file = GoldenFile::OpenShared("vectors/ops.safetensors");
  if (!file) return;
  const Matrix<float> o = file->Read<float>("kda.out"), gate = file->Read<float>("kda.gate_logit"),
                      weight = file->Read<float>("kda.o_norm_weight");
  const Matrix<float> got(o.rows(), o.cols());
  for (const CpuOps* set : AllCpuSets()) {
    for (std::int64_t row = 0; row < o.rows(); ++row)
      StepsOf(*set).gated_norm(
          {o.Row(row), weight.span().data(), gate.Row(row), 128, 1e-5F, got.Row(row)});
    ExpectNear(got, file->Read<float>("kda.gated_out"), 2e-6, 2e-6, set->isa);
  }
}

KdaOp CpuOp(const CpuOps& set, CpuRunner& runner) {
  return [&set, &runner](const KdaMixArgs& args) { runner.Run(set.kda_mix, args); };
}

// Tokens one after the other, a prefill of `chunk` at a time.
KdaContext RunChunks(KdaWorld& world, const KdaStream& stream, int chunk) {
  KdaContext context = world.Start(stream, 2);
  const auto tokens = static_cast<int>(stream.q.rows());
  while (context.position < tokens)
    world.Step({{&context, std::min(chunk, tokens - context.position)}});
  return context;
}

double LargestDifference(const Matrix<float>& a, const Matrix<float>& b) {
  return MaxError(a.span(), b.span());
}

class KdaAgainstOracle : public testing::TestWithParam<int> {};

// Kills: every mistake the oracle knows; each must be far outside the tolerance, or the inputs are
// too kind. Also a wrong unit in a page and a wrong layer.
TEST_P(KdaAgainstOracle, CpuAndRefAreRightAndMistakesShow) {
  Random random(11);
  const KdaWeights weights(3, GetParam(), random);
  KdaStream stream(weights, 53, random);
  for (int c = 0; c < weights.dim; ++c) stream.k.At(20, c) *= 1e-3F;
  const auto right = KdaOracle(weights, stream, KdaMistake::kNone).Run(53);
  KdaWorld reference(weights, ref::KdaMix, ref::KdaWindowBytes(KdaWorld::LayoutFor(weights)));
  ExpectNear(*RunChunks(reference, stream, 7).out, right.out, 3e-7, 3e-7, "ref");
  CpuRunner runner(1);
  for (const CpuOps* set : AllCpuSets()) {
    KdaWorld world(weights, CpuOp(*set, runner),
                   set->kda_window_bytes(KdaWorld::LayoutFor(weights)));
    ExpectNear(*RunChunks(world, stream, 7).out, right.out, 2e-6, 2e-6, set->isa);
  }
  for (int m = 1; m <= static_cast<int>(KdaMistake::kGateBeforeNorm); ++m) {
    if (static_cast<KdaMistake>(m) == KdaMistake::kNormEpsOnMean) continue;  // golden rows only
    const auto wrong = KdaOracle(weights, stream, static_cast<KdaMistake>(m)).Run(53);
    EXPECT_GT(LargestDifference(wrong.out, right.out), 1e-3) << "mistake " << m;
  }
}
INSTANTIATE_TEST_SUITE_P(Dims, KdaAgainstOracle, testing::Values(16, 32, 128));

// Kills: factors that overflow or go subnormal where all gates are -5, 0/0 on a key of zeros.
TEST(KdaMix, HardGatesAndEmptyKeysStayFinite) {
  Random random(12);
  const KdaWeights weights(2, 128, random);
  KdaStream stream(weights, 48, random);
  for (int t = 8; t < 48; ++t)
    for (int c = 0; c < 256; ++c) stream.z.At(t, c) = t < 40 ? 1e4F : -1e4F;
  for (int t = 18; t < 24; ++t)
    for (int c = 0; c < 256; ++c) stream.k.At(t, c) = 0;
  const auto right = KdaOracle(weights, stream, KdaMistake::kNone).Run(48);
  CpuRunner runner(1);
  for (const CpuOps* set : AllCpuSets()) {
    KdaWorld world(weights, CpuOp(*set, runner),
                   set->kda_window_bytes(KdaWorld::LayoutFor(weights)));
    ExpectNear(*RunChunks(world, stream, 16).out, right.out, 2e-6, 2e-6, set->isa);
  }
}

// Kills: an export of the state one chunk late, a fold of 15 rows, a tail of other rows than the
// last three, values stored in the place of keys.
TEST(KdaMix, ExportedStateIsTheRecurrencesState) {
  Random random(13);
  const KdaWeights weights(3, 32, random);
  const KdaStream stream(weights, 48, random);
  CpuRunner runner(1);
  KdaWorld world(weights, CpuOp(BestCpuSet(), runner),
                 BestCpuSet().kda_window_bytes(KdaWorld::LayoutFor(weights)));
  KdaContext context = world.Start(stream, 0);
  const Pages at16 = world.NewState(false), at32 = world.NewState(false);
  world.Step({{&context, 48}}, {{0, 32, at32}, {0, 16, at16}});
  for (const int position : {16, 32, 48}) {
    const auto right = KdaOracle(weights, stream, KdaMistake::kNone).Run(position);
    const std::vector<float> got = world.State(position == 16   ? at16
                                               : position == 32 ? at32
                                                                : context.target);
    for (int head = 0; head < 3; ++head) {
      const float* unit = got.data() + head * (32 * 32 + 9 * 32);
      ExpectNear({unit, 32 * 32}, {right.state.Row(head * 32), 32 * 32}, 2e-6, 2e-6, "state");
      for (int i = 0; i < kTailRows; ++i)
        ExpectSameBytes(unit + 32 * 32 + i * 96 + 32,
                        stream.k.Row(position - kTailRows + i) + head * 32, 128, "tail of k");
    }
  }
}

}  // namespace
}  // namespace k3::kernels
