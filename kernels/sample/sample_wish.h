// Rows with random options, and the memory those lie in. For tests.
#pragma once
#include <limits>
#include <vector>

#include "kernels/sample/sample.h"
#include "kernels/testing/random.h"

namespace k3::kernels {

inline constexpr double kNever = -std::numeric_limits<double>::infinity();

struct Wish {
  SampleRow row;  // without pointers: see View
  std::vector<LogitEdit> edits;
  std::vector<std::int32_t> banned;
  std::vector<std::uint32_t> mask;  // empty: none

  SampleRow View() const {
    SampleRow view = row;
    view.mask = mask.empty() ? nullptr : mask.data();
    view.edits = edits.data();
    view.num_edits = static_cast<int>(edits.size());
    view.banned = banned.data();
    view.num_banned = static_cast<int>(banned.size());
    return view;
  }

  // What is left of a logit: minus infinity where the id is not allowed.
  double Final(double logit, std::int32_t id) const {
    if (!mask.empty() && ((mask[static_cast<std::size_t>(id / 32)] >> (id % 32)) & 1U) == 0)
      return kNever;
    for (std::int32_t ban : banned)
      if (ban == id) return kNever;
    for (const LogitEdit& edit : edits) {
      if (edit.id != id) continue;
      logit += edit.bias;
      if (logit > 0) return logit / edit.repetition - edit.minus;
      return logit * edit.repetition - edit.minus;
    }
    return logit;
  }
};

inline float Quarters(Random& random, int low, int high) {
  return static_cast<float>(low + random.Below(high - low + 1)) * 0.25F;
}

// Each option is there or not, whatever the others are. Edits keep quarters quarters.
inline Wish RandomWish(Random& random, int width) {
  Wish wish;
  const auto maybe = [&random] { return random.Below(2) == 0; };
  const float temperatures[] = {0.0F, 1.0F, 1.5F, 2.0F};
  wish.row = {.temperature = temperatures[random.Below(4)],
              .seed = random.Next(),
              .choice = static_cast<std::uint32_t>(random.Below(3)),
              .position = static_cast<std::uint32_t>(random.Next())};
  if (maybe()) wish.row.top_p = maybe() ? 0.5F : random.Between(0.1F, 1);
  if (maybe()) wish.row.min_p = maybe() ? 1.0F : random.Between(0, 0.5F);
  if (maybe()) wish.row.top_k = 1 + random.Below(maybe() ? 4 : width + 3);
  const float repetitions[] = {0.5F, 1.0F, 2.0F};
  if (maybe())
    for (std::int32_t id = width - 1; id >= 0; --id)
      if (maybe())
        wish.edits.push_back(
            {id, Quarters(random, -8, 8), repetitions[random.Below(3)], Quarters(random, -4, 8)});
  if (maybe())
    for (int i = random.Below(width); i >= 0; --i) wish.banned.push_back(random.Below(width));
  if (random.Below(4) == 0)
    for (int i = 0; i < width; i += 32)
      wish.mask.push_back(static_cast<std::uint32_t>(random.Next()));
  return wish;
}

struct WishShape {
  int rows;
  int width;
};
inline std::vector<Wish> RandomWishes(Random& random, WishShape shape) {
  std::vector<Wish> wishes;
  wishes.reserve(static_cast<std::size_t>(shape.rows));
  for (int r = 0; r < shape.rows; ++r) wishes.push_back(RandomWish(random, shape.width));
  return wishes;
}

inline std::vector<SampleRow> RowsOf(const std::vector<Wish>& wishes) {
  std::vector<SampleRow> rows;
  rows.reserve(wishes.size());
  for (const Wish& wish : wishes) rows.push_back(wish.View());
  return rows;
}

}  // namespace k3::kernels
