#include "kernels/base/scratch.h"

#include <new>

namespace k3 {
namespace {
constexpr std::size_t kAlign = 64;
}  // namespace

void Scratch::Deleter::operator()(std::byte* data) const {
  ::operator delete[](data, std::align_val_t{kAlign});
}

Scratch::Block Scratch::NewBlock(std::size_t bytes) {
  return Block(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kAlign})));
}

void* Scratch::TakeBytes(std::size_t bytes) {
  const std::size_t rounded = (bytes + kAlign - 1) / kAlign * kAlign + kAlign;
  if (used_ + rounded <= capacity_) {
    void* piece = main_.get() + used_;
    used_ += rounded;
    return piece;
  }
  overflow_ += rounded;
  extra_.push_back(NewBlock(rounded));
  return extra_.back().get();
}

void Scratch::Reset() {
  if (!extra_.empty()) {
    extra_.clear();
    main_.reset();
    capacity_ += overflow_;
    main_ = NewBlock(capacity_);
    overflow_ = 0;
  }
  used_ = 0;
}

}  // namespace k3
