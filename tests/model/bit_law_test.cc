// Design section 6: a row's logits are a function of its own context. Whatever else is in the step,
// however the context was cut into steps, on however many threads and whichever instruction set,
// after export and restore at every grid point: the same bits.
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "kernels/cpu_isa.h"
#include "tests/model/harness.h"

namespace k3::testing {
namespace {

constexpr const char* kMicro = "tests/golden/k3-micro";
constexpr int kLength = 200;

unsigned Seed() {
  const char* given = std::getenv("K3_LAW_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  std::printf("seed %u (K3_LAW_SEED)\n", seed);
  return seed;
}

std::vector<Token> RandomTokens(std::mt19937& rng, int count) {
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  for (Token& token : tokens) token = static_cast<Token>(rng() % 2560);
  return tokens;
}

std::vector<Token> Part(const std::vector<Token>& tokens, int begin, int end) {
  return {tokens.begin() + begin, tokens.begin() + end};
}

// Index of the first row that differs, or -1.
int FirstDifference(const std::vector<Row>& got, const std::vector<Row>& want, int offset = 0) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Row& other = want[i + static_cast<std::size_t>(offset)];
    if (std::memcmp(got[i].data(), other.data(), other.size() * sizeof(float)) != 0) {
      return static_cast<int>(i) + offset;
    }
  }
  return -1;
}

class BitLaw : public ::testing::TestWithParam<const char*> {
 protected:
  BitLaw() : rng_(Seed()), harness_(kMicro, Device(1)), prompt_(RandomTokens(rng_, kLength)) {
    Context context = harness_.NewContext();
    want_ = harness_.Run(context, prompt_, {kLength});
  }

  // "ref", or an instruction set; latents in bf16, as in service.
  static ModelSetup Device(int threads) {
    const std::string name = GetParam();
    ModelSetup setup{.threads = threads, .latents = DType::kBf16};
    if (name == "ref") {
      setup.backend = name;
    } else {
      setup.isa = name;
    }
    return setup;
  }
  // The slow ones look at a sample of what the fast ones look at in full.
  static int Stride() {
    const std::string name = GetParam();
    if (name == "x86-64") return 61;  // its fma is a call where the compiler may not assume one
    return name == "x86-64-v3" || name == "avx512" ? 1 : 23;
  }
  int Below(int n) { return static_cast<int>(rng_() % static_cast<unsigned>(n)); }

  std::mt19937 rng_;
  Harness harness_;
  std::vector<Token> prompt_;
  std::vector<Row> want_;  // of one prefill of the whole prompt
};

// Kills: a tile, a split or an order of sums chosen by M; a row that reads its neighbour; padding
// that enters a norm.
TEST_P(BitLaw, RowsInTheStep) {
  for (const int rows : {1, 7, 8, 9, 15, 16, 17, 64, 512}) {
    for (const int at : {1, 16, 31, 100, 199}) {
      Context context = harness_.NewContext();
      harness_.Run(context, Part(prompt_, 0, at), {kLength});
      // Mates before and behind, of several lengths, in steps of `rows` rows altogether.
      std::vector<std::unique_ptr<Context>> mates;
      std::vector<Feed> feeds;
      const int before = Below(rows);
      const auto mate = [&](int count) {
        while (count > 0) {
          const int length = std::min(count, 1 + Below(200));
          mates.push_back(std::make_unique<Context>(harness_.NewContext()));
          feeds.push_back({mates.back().get(), RandomTokens(rng_, length)});
          count -= length;
        }
      };
      mate(before);
      feeds.push_back({&context, Part(prompt_, at, at + 1)});
      mate(rows - 1 - before);
      if (feeds.size() > Harness::kMaxContexts - 1) continue;
      const std::vector<Row> got = harness_.Step(feeds);
      ASSERT_EQ(static_cast<int>(got.size()), rows);
      EXPECT_EQ(FirstDifference({got[static_cast<std::size_t>(before)]}, want_, at), -1)
          << rows << " rows in the step, position " << at;
    }
    if (Stride() > 23 && rows == 17) break;
    if (Stride() > 1 && rows == 64) break;
  }
}

// Kills: a chunk cut where the grid is not, a conv tail of the chunk instead of the grid, a state
// folded per chunk, a score over the chunk alone.
TEST_P(BitLaw, EveryChunking) {
  for (int chunk = 1; chunk < kLength; chunk += Stride()) {
    Context context = harness_.NewContext();
    EXPECT_EQ(FirstDifference(harness_.Run(context, prompt_, {chunk}), want_), -1)
        << "chunks of " << chunk;
  }
  for (int round = 0; round < 1 + 60 / Stride(); ++round) {
    std::vector<int> sizes;
    for (int left = kLength; left > 0; left -= sizes.back()) sizes.push_back(1 + Below(40));
    Context context = harness_.NewContext();
    EXPECT_EQ(FirstDifference(harness_.Run(context, prompt_, sizes), want_), -1)
        << "random chunks, round " << round;
  }
}

// Kills: a decode path with its own arithmetic. Prefill of s tokens, then 33 of decode (two folds),
// then the rest as one chunk on top.
TEST_P(BitLaw, EverySplitIntoPrefillAndDecode) {
  constexpr int kDecode = 33;
  for (int split = 1; split < kLength; split += Stride()) {
    std::vector<int> sizes = {split};
    for (int i = 0; i < kDecode; ++i) sizes.push_back(1);
    sizes.push_back(kLength);
    Context context = harness_.NewContext();
    EXPECT_EQ(FirstDifference(harness_.Run(context, prompt_, sizes), want_), -1)
        << "prefill of " << split;
  }
}

// Kills: sums split over threads, a result that depends on who claimed a tile.
TEST_P(BitLaw, Threads) {
  Harness two(kMicro, Device(2));
  for (const int chunk : {1, 7, 16, 33, kLength}) {
    Context context = two.NewContext();
    EXPECT_EQ(FirstDifference(two.Run(context, prompt_, {chunk}), want_), -1)
        << "2 threads, chunks of " << chunk;
  }
}

// Kills: an export a chunk too late or early, a state without its conv tail, a source that is
// written, a resumed context that reads a window, latents beyond the snapshot that leak in.
TEST_P(BitLaw, ExportAndRestoreAtEveryGridPoint) {
  std::vector<std::unique_ptr<Snapshot>> snapshots;
  Feed feed{nullptr, prompt_};
  for (int position = 16; position < kLength; position += 16) {
    snapshots.push_back(std::make_unique<Snapshot>());
    snapshots.back()->position = position;
    feed.exports.push_back(snapshots.back().get());
  }
  Context writer = harness_.NewContext();
  feed.context = &writer;
  EXPECT_EQ(FirstDifference(harness_.Step({feed}), want_), -1) << "exporting";
  for (int round = 0; round < 2; ++round) {  // twice: consuming must not change a snapshot
    harness_.PoisonFreePages();
    for (const auto& snapshot : snapshots) {
      const std::vector<Token> rest = Part(prompt_, snapshot->position, kLength);
      Context resumed = harness_.Resume(*snapshot);
      const int chunk = round == 0 ? kLength : 1 + Below(20);
      EXPECT_EQ(FirstDifference(harness_.Run(resumed, rest, {chunk}), want_, snapshot->position),
                -1)
          << "restored at " << snapshot->position << ", chunks of " << chunk;
    }
  }
}

std::vector<const char*> Devices() {
  std::vector<const char*> names = {"ref", "avx512-emulated"};
  for (const kernels::CpuIsa& isa : kernels::UsableIsas()) names.push_back(isa.name.data());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Devices, BitLaw, ::testing::ValuesIn(Devices()), [](const auto& device) {
  std::string name = device.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Kills: an fma here and a product and a sum there, a libm that differs between machines, lanes
// reduced in another order, a group of MXFP4 summed in floats.
TEST(InstructionSets, SameBits) {
  std::mt19937 rng(Seed());
  const std::vector<Token> prompt = RandomTokens(rng, kLength);
  std::vector<Row> want;
  for (const char* name : Devices()) {
    if (std::string(name) == "ref") continue;
    Harness harness(kMicro, {.isa = name, .latents = DType::kBf16});
    Context context = harness.NewContext();
    const std::vector<Row> got = harness.Run(context, prompt, {37});
    if (want.empty()) want = got;
    EXPECT_EQ(FirstDifference(got, want), -1) << name;
  }
  if (kernels::UsableIsas().front().name != "avx512") {
    std::printf("NOT RUN: native AVX-512, which this CPU lacks; its source ran emulated\n");
  }
}

}  // namespace
}  // namespace k3::testing
