// Page housekeeping at the head of a step: zero pages that were just taken, copy pages.
//   1. All zeroing happens before all copies; a page appears at most once as a destination.
#pragma once
#include <cstddef>
#include <cstdint>

namespace k3::kernels {

struct CopyArgs {
  std::byte* pages = nullptr;
  std::int64_t page_bytes = 0;
  const std::int32_t* zero = nullptr;  // [num_zero]
  int num_zero = 0;
  const std::int32_t* from = nullptr;  // [num_copies]
  const std::int32_t* to = nullptr;    // [num_copies]
  int num_copies = 0;
};

}  // namespace k3::kernels
