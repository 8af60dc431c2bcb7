#include "cache/page_pool.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace k3::cache {
namespace {

// Kills: a page lent twice, a page lost by a move, a partial Take, a Take beyond the pool, an
// Append that returns its pages twice.
TEST(PagePool, LawUnderRandomSteps) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 rng(seed);
  const auto below = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  constexpr int kSize = 37;
  PagePool pool(kSize);
  std::vector<Pages> held;
  for (int step = 0; step < 20000; ++step) {
    const int what = below(4);
    if (what == 0 && !held.empty()) {
      std::swap(held[static_cast<std::size_t>(below(static_cast<int>(held.size())))], held.back());
      held.pop_back();
    } else if (what == 1 && held.size() >= 2) {
      Pages last = std::move(held.back());
      held.pop_back();
      held.front().Append(std::move(last));
    } else {
      const int want = below(9);
      const int free = pool.num_free();
      std::optional<Pages> pages = pool.Take(want);
      ASSERT_EQ(pages.has_value(), want <= free);
      if (pages) held.push_back(std::move(*pages));
    }
    std::multiset<PageId> lent;
    for (const Pages& pages : held) lent.insert(pages.ids().begin(), pages.ids().end());
    ASSERT_EQ(std::set<PageId>(lent.begin(), lent.end()).size(), lent.size());
    ASSERT_EQ(static_cast<int>(lent.size()) + pool.num_free(), kSize);
    pool.Audit();
  }
}

}  // namespace
}  // namespace k3::cache
