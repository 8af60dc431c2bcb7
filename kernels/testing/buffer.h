// Memory for tests: aligned to 64 bytes, zeroed, and exactly as long as asked, so that
// AddressSanitizer sees the first byte read beyond it.
#pragma once
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "kernels/base/tensor.h"

namespace k3::kernels {

template <typename T>
class Buffer {
 public:
  explicit Buffer(std::int64_t count) : count_(count) {
    void* memory = nullptr;
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    K3_CHECK(posix_memalign(&memory, 64, bytes == 0 ? 1 : bytes) == 0);
    std::memset(memory, 0, bytes);
    data_.reset(static_cast<T*>(memory));
  }
  T* data() const { return data_.get(); }
  std::int64_t size() const { return count_; }
  std::span<T> span() const { return {data(), static_cast<std::size_t>(count_)}; }
  T& operator[](std::int64_t i) const { return data_.get()[i]; }

 private:
  struct Deleter {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T[], Deleter> data_;
  std::int64_t count_;
};

// An owning matrix: what a Tensor of a test points at.
template <typename T>
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t cols) : buffer_(rows * cols), rows_(rows), cols_(cols) {}
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  T* Row(std::int64_t r) const { return buffer_.data() + r * cols_; }
  T& At(std::int64_t r, std::int64_t c) const { return Row(r)[c]; }
  std::span<T> span() const { return buffer_.span(); }
  std::span<T> RowSpan(std::int64_t r) const { return {Row(r), static_cast<std::size_t>(cols_)}; }
  Tensor view() const { return View(buffer_.data(), rows_, cols_); }

 private:
  Buffer<T> buffer_;
  std::int64_t rows_, cols_;
};

}  // namespace k3::kernels
