// Byte-pair merging of one piece: start from single bytes, join the adjacent pair whose
// concatenation has the lowest rank, the leftmost on ties, until no pair is a token.
//   Cost: O(n log n) for a piece of n bytes, whatever the bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/text/rank_table.h"

namespace k3::runtime {

inline constexpr std::int32_t kNoToken = -1;

// Which token two adjacent tokens make: every split of every token into two tokens.
class MergeTable {
 public:
  explicit MergeTable(const RankTable& ranks);
  std::int32_t Find(std::int32_t left, std::int32_t right) const;  // kNoToken where none

 private:
  void Insert(std::uint64_t pair, std::int32_t merged);

  // Open addressing, a power of two; an entry is left, right and merged id side by side.
  std::vector<std::uint64_t> slots_;
};

// Scratch space of one encoding call; one thread's.
class PieceEncoder {
 public:
  // Both outlive the encoder.
  PieceEncoder(const RankTable& ranks, const MergeTable& merges) : ranks_(ranks), merges_(merges) {}

  // Appends the ids of `piece`, which is not empty. A piece that is a token is that token.
  void Encode(std::string_view piece, std::vector<std::int32_t>& ids);

  // Queue operations so far: what a test of linearity counts.
  std::int64_t num_steps() const { return num_steps_; }

 private:
  struct Part {
    std::int32_t id;  // kNoToken: swallowed by the part on its left
    std::int32_t previous;
    std::int32_t next;
  };

  void Begin(std::string_view piece);
  void MergeAll();
  void Join(std::size_t left);
  void Push(std::int32_t left);
  std::int32_t MergedAt(std::int32_t left) const;

  const RankTable& ranks_;
  const MergeTable& merges_;
  std::vector<Part> parts_;           // by byte offset
  std::vector<std::uint64_t> queue_;  // min-heap of (rank, offset); entries may be out of date
  std::int64_t num_steps_ = 0;
};

}  // namespace k3::runtime
