#include "kernels/simd/simd_probe.h"

#include "kernels/simd/row_sums.h"

namespace k3::kernels::K3_ISA {
namespace {

constexpr SimdFunction kFunctions[] = {
    {"Add", [](const float* a, const float* b, const float*,
               float* out) { Store(out, Add(Load(a), Load(b))); }},
    {"Sub", [](const float* a, const float* b, const float*,
               float* out) { Store(out, Sub(Load(a), Load(b))); }},
    {"Mul", [](const float* a, const float* b, const float*,
               float* out) { Store(out, Mul(Load(a), Load(b))); }},
    {"Div", [](const float* a, const float* b, const float*,
               float* out) { Store(out, Div(Load(a), Load(b))); }},
    {"Sqrt", [](const float* a, const float*, const float*,
                float* out) { Store(out, Sqrt(Max(Load(a), Neg(Load(a))))); }},
    {"Fma", [](const float* a, const float* b, const float* c,
               float* out) { Store(out, Fma(Load(a), Load(b), Load(c))); }},
    {"Max", [](const float* a, const float* b, const float*,
               float* out) { Store(out, Max(Load(a), Load(b))); }},
    {"Min", [](const float* a, const float* b, const float*,
               float* out) { Store(out, Min(Load(a), Load(b))); }},
    {"SelectLess", [](const float* a, const float* b, const float* c,
                      float* out) { Store(out, SelectLess(Load(a), Load(b), Load(c), Load(a))); }},
    {"RoundToWhole", [](const float* a, const float*, const float*,
                        float* out) { Store(out, RoundToWhole(Load(a))); }},
    {"PowerOfTwo",
     [](const float* a, const float*, const float*, float* out) {
       const F32x16 whole = RoundToWhole(Max(Set1(-126.0F), Min(Set1(127.0F), Load(a))));
       Store(out, PowerOfTwo(whole));
     }},
    {"LoadBf16",
     [](const float* a, const float*, const float*, float* out) {
       Bf16 half[kLanes];
       for (int i = 0; i < kLanes; ++i) half[i] = ToBf16(a[i]);
       Store(out, LoadBf16(half));
     }},
    {"LoadBf16First",
     [](const float* a, const float*, const float*, float* out) {
       Bf16 half[5];
       for (int i = 0; i < 5; ++i) half[i] = ToBf16(a[i]);
       Store(out, LoadBf16First(half, 5));
     }},
    {"FromInt",
     [](const float* a, const float*, const float*, float* out) {
       std::int32_t whole[kLanes];
       for (int i = 0; i < kLanes; ++i) {
         const bool fits = a[i] > -2e9F && a[i] < 2e9F;
         whole[i] = fits ? static_cast<std::int32_t>(a[i]) : 7;
       }
       Store(out, FromInt(whole));
     }},
    {"ReduceAdd", [](const float* a, const float*, const float*,
                     float* out) { Store(out, Set1(ReduceAdd(Load(a)))); }},
    {"Registers",
     [](const float* a, const float* b, const float* c, float* out) {
       for (int i = 0; i < kLanes; i += kRegisterLanes) {
         const Register sum = FmaRegister(LoadRegister(a + i), LoadRegister(b + i),
                                          AddRegister(LoadRegister(c + i), ZeroRegister()));
         StoreRegister(out + i, sum);
       }
     }},
    {"Exp",
     [](const float* a, const float*, const float*, float* out) { Store(out, Exp(Load(a))); }},
    {"ExpShifted", [](const float* a, const float*, const float*,
                      float* out) { Store(out, Exp(Load(a), 58.0F)); }},
    {"Sigmoid",
     [](const float* a, const float*, const float*, float* out) { Store(out, Sigmoid(Load(a))); }},
    {"Tanh",
     [](const float* a, const float*, const float*, float* out) { Store(out, Tanh(Load(a))); }},
    {"Silu",
     [](const float* a, const float*, const float*, float* out) { Store(out, Silu(Load(a))); }},
    {"Situ", [](const float* a, const float* b, const float*,
                float* out) { Store(out, Situ(Load(a), Load(b), 4.0F, 25.0F)); }},
};

}  // namespace

const SimdProbe& Probe() {
  static constexpr SimdProbe kProbe = {
      kFunctions, sizeof kFunctions / sizeof kFunctions[0],
      [](const float* p, int n, float* out) { Store(out, LoadFirst(p, n)); },
      [](const float* p, int n, float* out) { StoreFirst(out, Load(p), n); },
      [](const float* a, const float* b, std::int64_t count) { return DotRow(a, b, count); }};
  return kProbe;
}

}  // namespace k3::kernels::K3_ISA
