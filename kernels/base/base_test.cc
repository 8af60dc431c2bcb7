// Tests of kernels/base: what every op stands on.
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <immintrin.h>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/base/bf16.h"
#include "kernels/base/mxfp4.h"
#include "kernels/base/result.h"
#include "kernels/base/scratch.h"
#include "kernels/base/tensor.h"
#include "kernels/base/thread_team.h"

namespace k3 {
namespace {

// Kills: truncation instead of rounding, halves rounded up, a carry lost into the exponent, a NaN
// that becomes infinity.
TEST(Bf16, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3f808000U)).bits, 0x3f80);
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3f818000U)).bits, 0x3f82);
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3f808001U)).bits, 0x3f81);
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3fffffffU)).bits, 0x4000);
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x7f7fffffU)).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(ToFloat(ToBf16(std::bit_cast<float>(0x7f800001U)))));
  EXPECT_TRUE(std::isnan(ToFloat(ToBf16(std::bit_cast<float>(0xffffffffU)))));
}

// Kills: a widening that is not exact, a table of narrowing with a hole.
TEST(Bf16, EveryValueSurvivesTheWayThere) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const Bf16 value{static_cast<std::uint16_t>(bits)};
    if (std::isnan(ToFloat(value))) continue;
    ASSERT_EQ(ToBf16(ToFloat(value)).bits, bits);
  }
}

// Kills: scale 0 read as zero, an exponent bias of 126 or 128, E2M1's 3 and 4 or signs mixed up.
TEST(Mxfp4, ScaleAndDigitsAreExact) {
  EXPECT_EQ(E8m0ToFloat(0), 0x1p-127F);
  EXPECT_EQ(E8m0ToFloat(1), 0x1p-126F);
  EXPECT_EQ(E8m0ToFloat(127), 1.0F);
  EXPECT_EQ(E8m0ToFloat(254), 0x1p127F);
  const double want[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(kTwiceE2m1[i], 2 * want[i]);
    EXPECT_EQ(kTwiceE2m1[8 + i], -2 * want[i]);
  }
}

// Kills: a row step of `cols` where a stride is given.
TEST(Tensor, RowsAreAStrideApart) {
  std::vector<float> memory(12);
  const Tensor tensor{memory.data(), DType::kF32, 3, 2, 4};
  EXPECT_EQ(tensor.Row<float>(2), memory.data() + 8);
  const ConstTensor reading = tensor;
  EXPECT_EQ(reading.Row<float>(1), memory.data() + 4);
  EXPECT_TRUE(ConstTensor{}.empty());
}

// Kills: an accessor that believes any type.
TEST(TensorDeathTest, TheWrongTypeAborts) {
  float value = 0;
  const Tensor tensor = View(&value, 1, 1);
  EXPECT_DEATH(tensor.Row<Bf16>(0), "CHECK failed");
}

// Kills: a result whose error reads as a value.
TEST(ResultDeathTest, HoldsOneOfBoth) {
  const Result<int> good = 3;
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(good.value(), 3);
  const Result<int> bad = Error{Code::kDataLoss, "cut"};
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().message, "cut");
  EXPECT_DEATH(bad.value(), "CHECK failed");
}

// Kills: unaligned pieces, pieces that overlap while it grows, growth that is not kept.
TEST(Scratch, PiecesAreAlignedDisjointAndKept) {
  Scratch scratch;
  for (int round = 0; round < 3; ++round) {
    std::vector<unsigned char*> pieces;
    for (int i = 0; i < 40; ++i) {
      auto* piece = scratch.Take<unsigned char>(100 * i + 1);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece) % 64, 0U);
      std::memset(piece, i, std::size_t{100} * static_cast<std::size_t>(i) + 1);
      pieces.push_back(piece);
    }
    for (int i = 0; i < 40; ++i) {
      EXPECT_EQ(pieces[static_cast<std::size_t>(i)][0], i);
      EXPECT_EQ(pieces[static_cast<std::size_t>(i)][100 * i], i);
    }
    const std::size_t before = scratch.capacity();
    scratch.Reset();
    EXPECT_TRUE(round == 0 || scratch.capacity() == before);
  }
}

// How often each index was handed out.
std::vector<int> Seen(ThreadTeam& team, std::int64_t count, std::int64_t grain) {
  std::vector<int> seen(static_cast<std::size_t>(count));
  ParallelFor(team, count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
  });
  return seen;
}

// Kills: an index run twice or never, a Run that returns early, sizes that do not divide.
TEST(ThreadTeam, EveryIndexRunsOnce) {
  for (int threads : {1, 2, 3}) {
    ThreadTeam team(threads);
    for (std::int64_t count : {0, 1, 7, 1000})
      for (std::int64_t grain : {1, 3, 2000})
        EXPECT_EQ(Seen(team, count, grain), std::vector<int>(static_cast<std::size_t>(count), 1));
  }
}

// Kills: two bodies at once under one worker number (they share that worker's memory).
TEST(ThreadTeam, AWorkerNumberIsNeverUsedTwiceAtOnce) {
  ThreadTeam team(3);
  std::vector<std::atomic<int>> inside(3);
  ParallelForWorkers(team, 300, 1, [&](int worker, std::int64_t begin, std::int64_t end) {
    ASSERT_LT(worker, 3);
    auto& mine = inside[static_cast<std::size_t>(worker)];
    EXPECT_EQ(mine.fetch_add(1), 0);
    EXPECT_EQ(end, begin + 1);
    mine.fetch_sub(1);
  });
}

// Kills: a hand-over lost between two jobs (it would hang), workers that sleep through one.
TEST(ThreadTeam, ManyShortJobs) {
  ThreadTeam team(2);
  std::atomic<int> total{0};
  for (int i = 0; i < 20000; ++i)
    team.Run([](void* sum, int) { static_cast<std::atomic<int>*>(sum)->fetch_add(1); }, &total);
  EXPECT_EQ(total.load(), 40000);
}

// Kills: subnormals flushed to zero in some thread, or left so by a library in the caller.
TEST(ThreadTeam, EveryThreadKeepsSubnormals) {
  ThreadTeam team(2);
  _mm_setcsr(_mm_getcsr() | 0x8040U);
  float products[2] = {1, 1};
  team.Run(
      [](void* out, int worker) {
        volatile float small = 0x1p-100F;
        static_cast<float*>(out)[worker] = small * 0x1p-40F;
      },
      products);
  EXPECT_EQ(products[0], 0x1p-140F);
  EXPECT_EQ(products[1], 0x1p-140F);
}

}  // namespace
}  // namespace k3
