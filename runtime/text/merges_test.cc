#include "runtime/text/merges.h"

#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "runtime/text/testing.h"

namespace k3::runtime::testing {
namespace {

using Ids = std::vector<std::int32_t>;

// The rule as it is written down, in strings and quadratic.
Ids NaiveMerge(const RankTable& ranks, const std::string& piece) {
  if (const auto whole = ranks.Find(piece)) return {*whole};
  std::vector<std::string> parts;
  for (const char byte : piece) parts.emplace_back(1, byte);
  for (;;) {
    std::int32_t lowest = ranks.size();
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const std::int32_t rank = ranks.Find(parts[i] + parts[i + 1]).value_or(ranks.size());
      if (rank < lowest) at = i;
      lowest = std::min(lowest, rank);
    }
    if (lowest == ranks.size()) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) ids.push_back(ranks.Find(part).value());
  return ids;
}

Ids Merge(const RankTable& ranks, const MergeTable& merges, const std::string& piece) {
  PieceEncoder encoder(ranks, merges);
  Ids ids;
  encoder.Encode(piece, ids);
  return ids;
}

// Merges in random order over few letters: many equal pairs, many pairs that spoil each other, and
// tokens that merging never reaches.
RankTable RandomRanks(std::mt19937& random) {
  std::set<std::string> known;
  std::vector<std::string> merges;
  for (int i = 0; i < 60; ++i) {
    std::string merge;
    for (std::uint32_t left = 2 + random() % 4; left > 0; --left) {
      merge += static_cast<char>('a' + random() % 3);
    }
    if (known.insert(merge).second) merges.push_back(merge);
  }
  return RankTable::Parse(RankFile(merges), "random").value();
}

// Kills: ties to the right, an entry of the queue that is used though its pair has changed, a
// neighbour's new pair forgotten, merging before the look-up of the whole piece.
TEST(PieceEncoder, EqualsTheNaiveRule) {
  std::mt19937 random = PrintedSeed();
  for (int round = 0; round < 60; ++round) {
    const RankTable ranks = RandomRanks(random);
    const MergeTable merges(ranks);
    for (int piece_round = 0; piece_round < 30; ++piece_round) {
      std::string piece;
      for (std::uint32_t left = 1 + random() % 40; left > 0; --left) {
        piece += static_cast<char>('a' + random() % 3);
      }
      ASSERT_EQ(Merge(ranks, merges, piece), NaiveMerge(ranks, piece)) << piece;
    }
  }
}

std::vector<std::string> RunsOf(std::size_t length) {
  std::vector<std::string> runs;
  for (const std::string unit : {"a", " ", "中", "!", "\n", "ab", "=-"}) {
    std::string run;
    while (run.size() < length) run += unit;
    runs.push_back(run);
  }
  return runs;
}

std::vector<RankTable> RealisticRanks() {
  std::vector<RankTable> tables;
  tables.push_back(RankTable::Load(std::string(kMicro) + "/tiktoken.model").value());
  if (const auto real = SharedPath("real/kimi-tokenizer/tiktoken.model")) {
    tables.push_back(RankTable::Load(*real).value());
  }
  return tables;
}

// Kills: a shortcut for long runs that is not the rule.
TEST(PieceEncoder, RunsEqualTheNaiveRule) {
  for (const RankTable& ranks : RealisticRanks()) {
    const MergeTable merges(ranks);
    for (const std::size_t length : {1U, 2U, 3U, 17U, 64U, 255U, 400U}) {
      for (const std::string& run : RunsOf(length)) {
        ASSERT_EQ(Merge(ranks, merges, run), NaiveMerge(ranks, run)) << run;
      }
    }
  }
}

// Kills: work that grows faster than the piece. A step is one push or pop of the
// queue; n bytes push at most n pairs, and each of fewer than n joins two more: 3n in, 3n out.
TEST(PieceEncoder, StepsAreLinear) {
  for (const RankTable& ranks : RealisticRanks()) {
    const MergeTable merges(ranks);
    for (const std::size_t length : {std::size_t{1} << 16, std::size_t{1} << 18}) {
      for (const std::string& run : RunsOf(length)) {
        PieceEncoder encoder(ranks, merges);
        Ids ids;
        encoder.Encode(run, ids);
        EXPECT_LE(encoder.num_steps(), 6 * static_cast<std::int64_t>(run.size()))
            << run.substr(0, 6);
      }
    }
  }
}

// Kills: a merge table that has only the split a token was made by, or invents one.
TEST(MergeTable, HasEverySplitOfEveryToken) {
  std::mt19937 random = PrintedSeed();
  const RankTable ranks = RandomRanks(random);
  const MergeTable merges(ranks);
  for (std::int32_t left = 'a'; left < ranks.size(); left = left == 'c' ? 256 : left + 1) {
    for (std::int32_t right = 'a'; right < ranks.size(); right = right == 'c' ? 256 : right + 1) {
      const std::string both = std::string(ranks.bytes(left)) + std::string(ranks.bytes(right));
      EXPECT_EQ(merges.Find(left, right), ranks.Find(both).value_or(kNoToken));
    }
  }
}

}  // namespace
}  // namespace k3::runtime::testing
