#include "kernels/sample/sample_draw.h"

#include <bit>
#include <cmath>
#include <vector>

namespace k3::kernels {
namespace {

__extension__ typedef unsigned __int128 Wide;

// Orders positive floats as whole numbers, cut into three digits from the top.
constexpr int kDigitBits[3] = {11, 11, 10};
constexpr int kDigitShift[3] = {21, 10, 0};

class Weights {
 public:
  Weights(const SampleRow& row, const float* weights, std::int32_t count) {
    for (std::int32_t id = 0; id < count; ++id) {
      if (!IsAllowed(row, id)) continue;
      const auto mass = static_cast<std::uint64_t>(weights[id] * kMassOne);
      if (mass == 0) continue;
      items_.push_back({std::bit_cast<std::uint32_t>(weights[id]), id, mass});
      total_ += mass;
    }
  }
  std::uint64_t total() const { return total_; }

  // In the order (weight descending, id ascending): the first whose running sum exceeds `target`
  // (< total), and that sum. Narrows down digit by digit instead of sorting.
  struct Found {
    std::int32_t id;
    std::uint64_t sum;
  };
  Found FirstBeyond(std::uint64_t target) const {
    std::uint32_t prefix = 0;
    std::uint64_t above = 0;  // mass of all keys above the digits fixed so far
    for (int digit = 0; digit < 3; ++digit) {
      const std::vector<std::uint64_t> mass = Histogram(prefix, digit);
      auto value = static_cast<std::uint32_t>(mass.size() - 1);
      while (above + mass[value] <= target) above += mass[value--];
      prefix = (prefix << kDigitBits[digit]) | value;
    }
    return FirstOfKey(prefix, above, target);
  }

 private:
  struct Item {
    std::uint32_t key;
    std::int32_t id;
    std::uint64_t mass;
  };

  std::vector<std::uint64_t> Histogram(std::uint32_t prefix, int digit) const {
    const int shift = kDigitShift[digit];
    const int bits = kDigitBits[digit];
    std::vector<std::uint64_t> mass(std::size_t{1} << bits);
    for (const Item& item : items_) {
      const std::uint64_t head = std::uint64_t{item.key} >> shift;
      if (head >> bits == prefix) mass[head & (mass.size() - 1)] += item.mass;
    }
    return mass;
  }

  Found FirstOfKey(std::uint32_t key, std::uint64_t sum, std::uint64_t target) const {
    for (const Item& item : items_) {
      if (item.key != key) continue;
      sum += item.mass;
      if (sum > target) return {item.id, sum};
    }
    return {-1, sum};
  }

  std::vector<Item> items_;  // ids ascending
  std::uint64_t total_ = 0;
};

// The mass that the nucleus must reach: total * top_p rounded up, top_p taken to 2^-32.
std::uint64_t NucleusMass(std::uint64_t total, float top_p) {
  const auto share = static_cast<std::uint64_t>(std::ldexp(static_cast<double>(top_p), 32));
  const Wide mass = (static_cast<Wide>(total) * share + 0xffffffffU) >> 32;
  return mass == 0 ? 1 : static_cast<std::uint64_t>(mass);
}

}  // namespace

std::array<std::uint32_t, 4> Philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  constexpr int kRounds = 10;
  constexpr std::uint64_t kFactor[2] = {0xD2511F53U, 0xCD9E8D57U};
  constexpr std::uint32_t kStep[2] = {0x9E3779B9U, 0xBB67AE85U};
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t a = kFactor[0] * counter[0];
    const std::uint64_t b = kFactor[1] * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + kStep[0], key[1] + kStep[1]};
  }
  return counter;
}

std::uint64_t RandomBits(const SampleRow& row) {
  const auto out =
      Philox({row.position, row.choice, 0, 0},
             {static_cast<std::uint32_t>(row.seed), static_cast<std::uint32_t>(row.seed >> 32)});
  return out[0] | (std::uint64_t{out[1]} << 32);
}

Largest FindLargest(const SampleRow& row, const float* logits, std::int32_t count) {
  Largest largest{-1, -INFINITY};
  bool damaged = false;
  for (std::int32_t id = 0; id < count; ++id) {
    if (!IsAllowed(row, id)) continue;
    damaged = damaged || !(logits[id] < INFINITY);  // NaN, too
    if (logits[id] > largest.logit) largest = {id, logits[id]};
  }
  return damaged ? Largest{-1, NAN} : largest;
}

std::int32_t DrawToken(const SampleRow& row, const float* weights, std::int32_t count) {
  const Weights all(row, weights, count);
  const std::uint64_t needed = NucleusMass(all.total(), row.top_p);
  const std::uint64_t nucleus =
      needed >= all.total() ? all.total() : all.FirstBeyond(needed - 1).sum;
  const auto target =
      static_cast<std::uint64_t>((static_cast<Wide>(RandomBits(row)) * nucleus) >> 64);
  return all.FirstBeyond(target).id;
}

}  // namespace k3::kernels
