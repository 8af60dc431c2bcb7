// Window slots 0..n-1. A Slot is the only way to hold one; its destructor the only way back.
#pragma once
#include <utility>
#include <vector>

#include "kernels/base/check.h"

namespace k3::runtime {

class SlotPool {
 public:
  class Slot {
   public:
    Slot(Slot&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_) {}
    Slot& operator=(Slot&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(id_, other.id_);
      return *this;
    }
    ~Slot() {
      if (pool_ != nullptr) pool_->free_.push_back(id_);
    }
    int id() const { return id_; }

   private:
    friend class SlotPool;
    Slot(SlotPool* pool, int id) : pool_(pool), id_(id) {}
    SlotPool* pool_;
    int id_;
  };

  explicit SlotPool(int size) : size_(size) {
    for (int i = size; i-- > 0;) free_.push_back(i);
  }
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;
  ~SlotPool() { K3_CHECK(num_free() == size_); }

  int num_free() const { return static_cast<int>(free_.size()); }
  Slot Take() {
    K3_CHECK(!free_.empty());
    const int id = free_.back();
    free_.pop_back();
    return Slot(this, id);
  }

 private:
  int size_;
  std::vector<int> free_;
};

}  // namespace k3::runtime
