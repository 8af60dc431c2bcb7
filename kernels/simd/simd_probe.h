// The functions of simd.h as plain functions, once per instruction set: for simd_test.cc.
#pragma once
#include <cstdint>
#include <string_view>

namespace k3::kernels {

// Sixteen floats from up to three times sixteen.
struct SimdFunction {
  std::string_view name;
  void (*call)(const float* a, const float* b, const float* c, float* out);
};

struct SimdProbe {
  const SimdFunction* functions;
  int num_functions;
  void (*load_first)(const float* p, int n, float* out);   // LoadFirst, then Store
  void (*store_first)(const float* p, int n, float* out);  // Load, then StoreFirst
  float (*dot_row)(const float* a, const float* b, std::int64_t count);
};

namespace x86_64 {
const SimdProbe& Probe();
}
namespace x86_64_v3 {
const SimdProbe& Probe();
}
namespace avx512 {
const SimdProbe& Probe();
}
namespace avx512_emulated {
const SimdProbe& Probe();
}

}  // namespace k3::kernels
