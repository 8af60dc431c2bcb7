#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "kernels/testing/buffer.h"

namespace k3::kernels {
namespace {

constexpr std::int64_t kPageBytes = 768;

// Page p filled with p + 1.
Buffer<std::byte> Pages(int count) {
  Buffer<std::byte> pages(count * kPageBytes);
  for (int p = 0; p < count; ++p) std::memset(pages.data() + p * kPageBytes, p + 1, kPageBytes);
  return pages;
}

// Kills: copies before zeroing (a copy of a freshly zeroed page), a page that is off by one or half
// done, neighbours touched.
TEST(Copy, ZeroesThenCopies) {
  for (const char* name : {"ref", "cpu"}) {
    auto backend = MakeBackend(name, {.threads = 2, .isa = ""});
    ASSERT_TRUE(backend.ok());
    const Buffer<std::byte> pages = Pages(8);
    const std::vector<std::int32_t> zero = {6, 1};
    const std::vector<std::int32_t> from = {6, 2, 0};
    const std::vector<std::int32_t> to = {3, 7, 5};
    backend.value()->Copy({pages.data(), kPageBytes, zero.data(), 2, from.data(), to.data(), 3});
    const int want[8] = {1, 0, 3, 0, 5, 1, 0, 3};
    for (int p = 0; p < 8; ++p)
      for (std::int64_t i = 0; i < kPageBytes; ++i)
        ASSERT_EQ(static_cast<int>(pages[p * kPageBytes + i]), want[p]) << name << " page " << p;
  }
}

// Kills: an empty step that touches a page.
TEST(Copy, NothingToDo) {
  for (const char* name : {"ref", "cpu"}) {
    auto backend = MakeBackend(name, {.threads = 2, .isa = ""});
    const Buffer<std::byte> pages = Pages(2);
    backend.value()->Copy({pages.data(), kPageBytes, nullptr, 0, nullptr, nullptr, 0});
    EXPECT_EQ(static_cast<int>(pages[0]), 1);
    EXPECT_EQ(static_cast<int>(pages[kPageBytes]), 2);
  }
}

}  // namespace
}  // namespace k3::kernels
