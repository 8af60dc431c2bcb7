#include "kernels/sample/sample_draw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

namespace k3::kernels {
namespace {

__extension__ typedef unsigned __int128 Wide;

// Orders positive floats as whole numbers, cut into three digits from the top.
constexpr int kDigitBits[3] = {11, 11, 10};
constexpr int kDigitShift[3] = {21, 10, 0};

// By way of a signed number: one instruction instead of a branch.
std::uint64_t MassOf(float weight) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(weight * kMassOne));
}

// What a prefix of the order holds.
struct Sum {
  std::uint64_t mass = 0;
  std::uint64_t count = 0;
};
Sum operator+(Sum a, Sum b) {
  return {a.mass + b.mass, a.count + b.count};
}

// All weights in the order (weight descending, id ascending). Those a draw may not choose become 0
// where they lie: the last of the order, without mass, so that no search by mass ends there.
class Weights {
 public:
  // min_p is applied here: the largest weight is 1.
  Weights(const SampleRow& row, std::span<float> weights) : weights_(weights) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      float& weight = weights_[i];
      if (!IsAllowed(row, static_cast<std::int32_t>(i)) || weight < row.min_p) {
        weight = 0;
        continue;
      }
      Sum& bin = first_digits_[std::bit_cast<std::uint32_t>(weight) >> kDigitShift[0]];
      bin = bin + Sum{MassOf(weight), 1};
    }
    for (const Sum& bin : first_digits_) total_ = total_ + bin;
  }
  Sum total() const { return total_; }

  // The first of the order with which the running sum of `measure` exceeds `target` (< the total),
  // and what stands up to it. Narrows down digit by digit instead of sorting.
  struct Found {
    std::size_t index;
    Sum sum;
  };
  Found FirstBeyond(std::uint64_t target, std::uint64_t Sum::*measure) const {
    std::uint32_t key = 0;
    Sum above;  // all keys above the digits fixed so far
    for (int digit = 0; digit < 3; ++digit) {
      const Bins bins = digit == 0 ? first_digits_ : Histogram(key, digit);
      std::size_t value = (std::size_t{1} << kDigitBits[digit]) - 1;
      while ((above + bins[value]).*measure <= target) above = above + bins[value--];
      key = (key << kDigitBits[digit]) | static_cast<std::uint32_t>(value);
    }
    const auto weight = std::bit_cast<float>(key);
    std::size_t index = 0;
    for (; index < weights_.size(); ++index) {
      if (weights_[index] != weight) continue;
      above = above + Sum{MassOf(weight), 1};
      if (above.*measure > target) break;
    }
    return {index, above};
  }

 private:
  using Bins = std::array<Sum, std::size_t{1} << kDigitBits[0]>;

  // Of those whose higher digits are `prefix`, by this digit.
  Bins Histogram(std::uint32_t prefix, int digit) const {
    const int shift = kDigitShift[digit];
    const int bits = kDigitBits[digit];
    Bins bins{};
    for (float weight : weights_) {
      const std::uint32_t head = std::bit_cast<std::uint32_t>(weight) >> shift;
      if (head >> bits != prefix) continue;
      Sum& bin = bins[head & ((1U << bits) - 1)];
      bin = bin + Sum{MassOf(weight), 1};
    }
    return bins;
  }

  std::span<float> weights_;
  Bins first_digits_{};  // every search begins with the same one
  Sum total_;
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

const float* Edited(const SampleRow& row, const float* logits, std::int32_t count, float* copy) {
  if (row.num_edits == 0 && row.num_banned == 0) return logits;
  std::copy_n(logits, count, copy);
  for (int i = 0; i < row.num_edits; ++i) {
    const LogitEdit& edit = row.edits[i];
    K3_CHECK(edit.id >= 0);
    if (edit.id >= count) continue;
    const float raised = copy[edit.id] + edit.bias;
    copy[edit.id] = (raised > 0 ? raised / edit.repetition : raised * edit.repetition) - edit.minus;
  }
  for (int i = 0; i < row.num_banned; ++i) {
    K3_CHECK(row.banned[i] >= 0);
    if (row.banned[i] < count) copy[row.banned[i]] = -INFINITY;
  }
  return copy;
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

std::int32_t DrawToken(const SampleRow& row, float* weights, std::int32_t count) {
  const Weights all(row, {weights, static_cast<std::size_t>(count)});
  Sum left = all.total();
  K3_CHECK(left.mass > 0);
  const auto top_k = static_cast<std::uint64_t>(row.top_k);
  if (top_k > 0 && top_k < left.count) left = all.FirstBeyond(top_k - 1, &Sum::count).sum;
  const std::uint64_t needed = NucleusMass(left.mass, row.top_p);
  if (needed < left.mass) left = all.FirstBeyond(needed - 1, &Sum::mass).sum;
  const auto target =
      static_cast<std::uint64_t>((static_cast<Wide>(RandomBits(row)) * left.mass) >> 64);
  return static_cast<std::int32_t>(all.FirstBeyond(target, &Sum::mass).index);
}

}  // namespace k3::kernels
