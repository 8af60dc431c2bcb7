// The base vocabulary: tiktoken.model, whose rank of a byte string is its token id.
//   1. Ranks are 0..size-1 without gaps; every rank and every byte string occurs once.
//   2. Each of the 256 single bytes is a token, so every text can be encoded.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/result.h"

namespace k3::runtime {

class RankTable {
 public:
  // A line is "<base64> <rank>". `path` is for messages; the first kMaxFaults faults are reported.
  static Result<RankTable> Parse(std::string_view text, const std::string& path);
  static Result<RankTable> Load(const std::string& path);

  static constexpr std::size_t kMaxFaults = 10;
  // Two ids and a merged one share 64 bits in the merge table.
  static constexpr int kIdBits = 21;
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

  std::int32_t size() const { return static_cast<std::int32_t>(starts_.size()) - 1; }
  std::string_view bytes(std::int32_t id) const;
  std::optional<std::int32_t> Find(std::string_view bytes) const;
  std::int32_t ByteId(std::uint8_t byte) const { return byte_ids_[byte]; }

 private:
  friend class RankReader;
  RankTable() = default;

  std::size_t SlotOf(std::string_view bytes) const;  // where it is, or the free slot to put it

  std::string arena_;                  // all tokens one after another, in id order
  std::vector<std::uint32_t> starts_;  // [size + 1] into arena_
  std::vector<std::int32_t> slots_;    // open addressing over ids, -1 is free, a power of two
  std::array<std::int32_t, 256> byte_ids_{};
};

}  // namespace k3::runtime
