// Tensor: a typed row-major view of memory someone else owns. Two dimensions, the grain every op
// works at; a vector is one row. ConstTensor is the same, for reading.
//   1. Element (r, c) lies at data + (r * stride + c) * SizeOf(dtype); stride >= cols.
//   2. An empty Tensor (data == nullptr) means "absent" where an op's Args allow it.
// Accessors are always_inline: an object file built for one instruction set must not lend its
// copy of an inline function to the rest of the program.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/base/bf16.h"
#include "kernels/base/check.h"

namespace k3 {

enum class DType : std::uint8_t { kF32, kBf16, kU8, kI32 };

constexpr std::int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBf16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}

constexpr const char* NameOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBf16:
      return "BF16";
    case DType::kU8:
      return "U8";
    case DType::kI32:
      return "I32";
  }
  return "?";
}

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<Bf16> {
  static constexpr DType value = DType::kBf16;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kI32;
};

struct ConstTensor {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  // elements between rows

  [[gnu::always_inline]] bool empty() const { return data == nullptr; }

  template <typename T>
  [[gnu::always_inline]] const T* Row(std::int64_t r) const {
    K3_CHECK(dtype == DTypeOf<T>::value);
    return static_cast<const T*>(data) + r * stride;
  }
};

struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  [[gnu::always_inline]] bool empty() const { return data == nullptr; }

  template <typename T>
  [[gnu::always_inline]] T* Row(std::int64_t r) const {
    K3_CHECK(dtype == DTypeOf<T>::value);
    return static_cast<T*>(data) + r * stride;
  }

  // NOLINTNEXTLINE(google-explicit-constructor): reading is always allowed.
  [[gnu::always_inline]] operator ConstTensor() const { return {data, dtype, rows, cols, stride}; }
};

// Dense views over typed memory.
template <typename T>
[[gnu::always_inline]] inline Tensor View(T* data, std::int64_t rows, std::int64_t cols) {
  return {data, DTypeOf<T>::value, rows, cols, cols};
}
template <typename T>
[[gnu::always_inline]] inline ConstTensor View(const T* data, std::int64_t rows,
                                               std::int64_t cols) {
  return {data, DTypeOf<T>::value, rows, cols, cols};
}

// What an op must move and do, whatever the implementation. The roofline is made of these.
struct Cost {
  std::int64_t bytes;
  std::int64_t flops;
};

}  // namespace k3
