// PagePool lends page ids 0..n-1. A Pages is the only way to hold some; its destructor the only
// way back: there is no free call.
//   1. free + lent == size, always.        2. The pool outlives what it lent.
//   3. A page is lent to one Pages at a time; a page just taken holds garbage until zeroed.
// One thread (the engine's) owns a pool.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "cache/types.h"
#include "kernels/base/check.h"

namespace k3::cache {

class PagePool;

// An ordered, owned set of pages. Move-only.
class Pages {
 public:
  Pages() = default;
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;
  ~Pages();

  std::span<const PageId> ids() const { return ids_; }
  int size() const { return static_cast<int>(ids_.size()); }
  bool empty() const { return ids_.empty(); }

  // Takes over `more`, which must come from the same pool, behind what is here.
  void Append(Pages more);

  // Gives back all but the first `size`.
  void Shrink(int size);

 private:
  friend class PagePool;
  Pages(PagePool* pool, std::vector<PageId> ids) : pool_(pool), ids_(std::move(ids)) {}

  PagePool* pool_ = nullptr;
  std::vector<PageId> ids_;
};

class PagePool {
 public:
  explicit PagePool(int size);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  ~PagePool() { K3_CHECK(num_free() == size_); }

  int size() const { return size_; }
  int num_free() const { return static_cast<int>(free_.size()); }

  // All `count` or nothing: empty optional when fewer are free, a refusal and not an error.
  std::optional<Pages> Take(int count);

  // Every free id is in range and listed once. Aborts when not; for tests, after every step.
  void Audit() const;

 private:
  friend class Pages;
  void Return(std::span<const PageId> ids);

  int size_;
  std::vector<PageId> free_;  // used as a stack: the page freed last is the warmest
};

}  // namespace k3::cache
