// Working memory of one op call: taken in pieces, given back all at once by Reset().
//   1. Pieces are aligned to 64 bytes and NOT zeroed.
//   2. It grows to the largest call it has seen and keeps that; the warm-up step at start runs the
//      largest shapes, so nothing grows under load.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace k3 {

class Scratch {
 public:
  template <typename T>
  [[gnu::always_inline]] T* Take(std::int64_t count) {
    return static_cast<T*>(TakeBytes(static_cast<std::size_t>(count) * sizeof(T)));
  }
  void Reset();
  std::size_t capacity() const { return capacity_; }

 private:
  struct Deleter {
    void operator()(std::byte* data) const;
  };
  using Block = std::unique_ptr<std::byte[], Deleter>;
  static Block NewBlock(std::size_t bytes);

  void* TakeBytes(std::size_t bytes);

  Block main_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;      // of main_
  std::size_t overflow_ = 0;  // bytes in extra_, added to the capacity at the next Reset
  std::vector<Block> extra_;
};

}  // namespace k3
