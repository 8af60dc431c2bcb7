#include "runtime/text/merges.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "kernels/base/check.h"

namespace k3::runtime {
namespace {

constexpr int kIdBits = RankTable::kIdBits;
static_assert(3 * kIdBits < 64);
constexpr std::uint64_t kIdMask = (std::uint64_t{1} << kIdBits) - 1;
constexpr std::uint64_t kFree = ~std::uint64_t{0};

std::uint64_t PairOf(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(left) << kIdBits) | static_cast<std::uint64_t>(right);
}

// Fibonacci hashing: the upper bits of the product depend on all bits of the pair.
std::size_t SlotOf(std::uint64_t pair, std::size_t num_slots) {
  return static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15ULL) >> 20) & (num_slots - 1);
}

}  // namespace

MergeTable::MergeTable(const RankTable& ranks) {
  std::vector<std::pair<std::uint64_t, std::int32_t>> merges;
  for (std::int32_t id = 0; id < ranks.size(); ++id) {
    const std::string_view bytes = ranks.bytes(id);
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      const auto left = ranks.Find(bytes.substr(0, cut));
      if (!left) continue;
      const auto right = ranks.Find(bytes.substr(cut));
      if (right) merges.emplace_back(PairOf(*left, *right), id);
    }
  }
  slots_.assign(std::bit_ceil(merges.size() * 2 + 1), kFree);
  for (const auto& [pair, merged] : merges) Insert(pair, merged);
}

void MergeTable::Insert(std::uint64_t pair, std::int32_t merged) {
  std::size_t slot = SlotOf(pair, slots_.size());
  while (slots_[slot] != kFree) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = (pair << kIdBits) | static_cast<std::uint64_t>(merged);
}

std::int32_t MergeTable::Find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = PairOf(left, right);
  std::size_t slot = SlotOf(pair, slots_.size());
  while (slots_[slot] != kFree) {
    if ((slots_[slot] >> kIdBits) == pair) return static_cast<std::int32_t>(slots_[slot] & kIdMask);
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return kNoToken;
}

void PieceEncoder::Encode(std::string_view piece, std::vector<std::int32_t>& ids) {
  K3_CHECK(!piece.empty());
  if (const auto whole = ranks_.Find(piece)) {
    ids.push_back(*whole);
    return;
  }
  Begin(piece);
  MergeAll();
  for (std::int32_t part = 0; part != kNoToken;) {
    const Part& at = parts_[static_cast<std::size_t>(part)];
    ids.push_back(at.id);
    part = at.next;
  }
}

void PieceEncoder::Begin(std::string_view piece) {
  const auto length = static_cast<std::int32_t>(piece.size());
  parts_.clear();
  queue_.clear();
  for (std::int32_t i = 0; i < length; ++i) {
    const auto byte = static_cast<std::uint8_t>(piece[static_cast<std::size_t>(i)]);
    parts_.push_back({ranks_.ByteId(byte), i - 1, i + 1 < length ? i + 1 : kNoToken});
  }
  for (std::int32_t i = 0; i < length; ++i) Push(i);
}

// The queue is never cleaned: an entry counts only if its pair still makes the token it names.
// A pair that changed meanwhile has pushed its own entry, so nothing is lost.
void PieceEncoder::MergeAll() {
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    const std::uint64_t entry = queue_.back();
    queue_.pop_back();
    ++num_steps_;
    const auto left = static_cast<std::int32_t>(entry & 0xFFFFFFFFU);
    const auto rank = static_cast<std::int32_t>(entry >> 32);
    if (MergedAt(left) != rank) continue;
    Join(static_cast<std::size_t>(left));
  }
}

// The part at `left` swallows its right neighbour; the two pairs it is now in are new.
void PieceEncoder::Join(std::size_t left) {
  Part& part = parts_[left];
  part.id = MergedAt(static_cast<std::int32_t>(left));
  Part& swallowed = parts_[static_cast<std::size_t>(part.next)];
  swallowed.id = kNoToken;
  part.next = swallowed.next;
  if (part.next != kNoToken) {
    parts_[static_cast<std::size_t>(part.next)].previous = static_cast<std::int32_t>(left);
    Push(static_cast<std::int32_t>(left));
  }
  if (part.previous != kNoToken) Push(part.previous);
}

void PieceEncoder::Push(std::int32_t left) {
  const std::int32_t merged = MergedAt(left);
  if (merged == kNoToken) return;
  ++num_steps_;
  queue_.push_back((static_cast<std::uint64_t>(merged) << 32) | static_cast<std::uint64_t>(left));
  std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
}

std::int32_t PieceEncoder::MergedAt(std::int32_t left) const {
  const Part& part = parts_[static_cast<std::size_t>(left)];
  if (part.id == kNoToken || part.next == kNoToken) return kNoToken;
  return merges_.Find(part.id, parts_[static_cast<std::size_t>(part.next)].id);
}

}  // namespace k3::runtime
