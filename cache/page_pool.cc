#include "cache/page_pool.h"

#include <utility>

namespace k3::cache {

Pages::Pages(Pages&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), ids_(std::exchange(other.ids_, {})) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(ids_, other.ids_);
  return *this;
}

Pages::~Pages() {
  if (pool_ != nullptr) pool_->Return(ids_);
}

void Pages::Append(Pages more) {
  if (more.pool_ == nullptr) return;
  if (pool_ == nullptr) pool_ = more.pool_;
  K3_CHECK(pool_ == more.pool_);
  ids_.insert(ids_.end(), more.ids_.begin(), more.ids_.end());
  more.ids_.clear();
}

void Pages::Shrink(int size) {
  K3_CHECK(size >= 0);
  K3_CHECK(size <= this->size());
  if (pool_ == nullptr) return;
  pool_->Return(ids().subspan(static_cast<std::size_t>(size)));
  ids_.resize(static_cast<std::size_t>(size));
}

PagePool::PagePool(int size) : size_(size) {
  K3_CHECK(size >= 0);
  free_.reserve(static_cast<std::size_t>(size));
  for (int i = size; i-- > 0;) free_.push_back(static_cast<PageId>(i));
}

std::optional<Pages> PagePool::Take(int count) {
  K3_CHECK(count >= 0);
  if (count > num_free()) return std::nullopt;
  std::vector<PageId> ids(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - static_cast<std::size_t>(count));
  return Pages(this, std::move(ids));
}

void PagePool::Return(std::span<const PageId> ids) {
  // Back in reverse, so that the next Take sees them in the order they were held.
  free_.insert(free_.end(), ids.rbegin(), ids.rend());
  K3_CHECK(num_free() <= size_);
}

void PagePool::Audit() const {
  std::vector<bool> seen(static_cast<std::size_t>(size_));
  for (const PageId id : free_) {
    const auto index = static_cast<std::size_t>(id);
    K3_CHECK(index < seen.size());
    K3_CHECK(!seen[index]);
    seen[index] = true;
  }
}

}  // namespace k3::cache
