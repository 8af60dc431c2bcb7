// The sixteen lanes of every instruction set: equal to the bit, and close to libm in double.
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/simd/simd_probe.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/cpu_sets.h"
#include "kernels/testing/random.h"

namespace k3::kernels {
namespace {

const SimdProbe& ProbeOf(const CpuOps& ops) {
  const std::string_view isa = ops.isa;
  if (isa == "avx512") return avx512::Probe();
  if (isa == "avx512_emulated") return avx512_emulated::Probe();
  return isa == "x86_64_v3" ? x86_64_v3::Probe() : x86_64::Probe();
}

std::vector<float> Inputs(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  const std::vector<float> corners = {0.0F,    -0.0F,    1.0F,    -1.0F,     0.5F,      -0.5F,
                                      1.5F,    2.5F,     0.625F,  -0.625F,   88.0F,     -88.0F,
                                      -103.0F, 103.0F,   1e-40F,  -1e-40F,   1e-20F,    1e20F,
                                      -1e4F,   1e4F,     3.4e38F, 0x1p-149F, 0x1p-126F, 87.33F,
                                      -87.34F, 0.34657F, 100.0F,  -95.0F,    INFINITY,  -INFINITY};
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int kind = random.Below(8);
    if (kind == 0) {
      out[i] = corners[static_cast<std::size_t>(random.Below(static_cast<int>(corners.size())))];
    } else {
      out[i] = random.Normal() * std::pow(10.0F, random.Between(-4, kind < 6 ? 2.3F : 6));
    }
  }
  return out;
}

// Kills: an instruction set whose rounding, min/max of signed zeros, tail or reduction order
// differs; fma computed in two roundings (portable, emulated).
TEST(Simd, EverySetHasTheSameBits) {
  const std::uint64_t seed = LawSeed(1);
  const std::vector<float> a = Inputs(seed, 16 * 500);
  const std::vector<float> b = Inputs(seed + 1, a.size());
  const std::vector<float> c = Inputs(seed + 2, a.size());
  const std::vector<const CpuOps*> sets = AllCpuSets();
  const SimdProbe& first = ProbeOf(*sets[0]);
  for (const CpuOps* ops : sets) {
    const SimdProbe& probe = ProbeOf(*ops);
    for (int f = 0; f < probe.num_functions; ++f) {
      const std::string what = std::string(ops->isa) + " " + std::string(probe.functions[f].name);
      std::vector<float> want(a.size()), got(a.size());
      for (std::size_t i = 0; i < a.size(); i += 16) {
        first.functions[f].call(&a[i], &b[i], &c[i], &want[i]);
        probe.functions[f].call(&a[i], &b[i], &c[i], &got[i]);
      }
      for (std::size_t i = 0; i < a.size(); ++i) {
        if (std::isnan(want[i]) && std::isnan(got[i])) continue;  // which NaN is nobody's business
        ASSERT_EQ(std::bit_cast<std::uint32_t>(want[i]), std::bit_cast<std::uint32_t>(got[i]))
            << what << "(" << a[i] << ", " << b[i] << ", " << c[i] << ") = " << got[i] << ", want "
            << want[i];
      }
    }
  }
}

using Exact = double (*)(double x);

void ExpectCloseToLibm(std::string_view name, Exact exact, double relative, double absolute) {
  const SimdProbe& probe = ProbeOf(BestCpuSet());
  for (int f = 0; f < probe.num_functions; ++f) {
    if (probe.functions[f].name != name) continue;
    std::vector<float> x, got, want;
    for (int i = -160 * 64; i < 160 * 64; ++i) x.push_back(static_cast<float>(i) / 97.0F);
    for (int i = 0; i < 1024; ++i)
      x.push_back(std::ldexp(1.0F + static_cast<float>(i) / 1024, i % 60 - 50));
    got.resize(x.size());
    for (std::size_t i = 0; i < x.size(); i += 16)
      probe.functions[f].call(&x[i], &x[i], &x[i], &got[i]);
    for (float value : x) want.push_back(static_cast<float>(exact(value)));
    ExpectNear(got, want, absolute, relative, std::string(name));
    return;
  }
  FAIL() << "no function " << name;
}

// Kills: a wrong coefficient or reduction constant, tanh that cancels near zero, sigmoid that
// overflows, a shift that is added to x instead of the exponent.
TEST(Simd, CloseToLibm) {
  ExpectCloseToLibm(
      "Exp", [](double x) { return std::exp(x); }, 1.5e-7, 1e-44);
  ExpectCloseToLibm(
      "ExpShifted", [](double x) { return std::exp(x) * 0x1p58; }, 1.5e-7, 1e-44);
  ExpectCloseToLibm(
      "Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 3e-7, 1e-38);
  ExpectCloseToLibm(
      "Tanh", [](double x) { return std::tanh(x); }, 3e-7, 0);
  ExpectCloseToLibm(
      "Silu", [](double x) { return x / (1 + std::exp(-x)); }, 4e-7, 1e-36);
}

// Kills: a NaN that comes out of exp, sigmoid, tanh or SiTU as a healthy number, so that a damaged
// row would become text.
TEST(Simd, NanStaysNan) {
  const std::vector<float> nan(16, NAN);
  const std::vector<float> one(16, 1.0F);
  for (const CpuOps* ops : AllCpuSets()) {
    const SimdProbe& probe = ProbeOf(*ops);
    for (int f = 0; f < probe.num_functions; ++f) {
      const std::string_view name = probe.functions[f].name;
      if (name != "Exp" && name != "Sigmoid" && name != "Tanh" && name != "Silu" && name != "Situ")
        continue;
      float out[16];
      probe.functions[f].call(nan.data(), one.data(), one.data(), out);
      for (float value : out) EXPECT_TRUE(std::isnan(value)) << ops->isa << " " << name;
      probe.functions[f].call(one.data(), nan.data(), one.data(), out);
      EXPECT_TRUE(name != "Situ" || std::isnan(out[3])) << ops->isa;
    }
  }
}

// Kills: infinities and subnormals of exp handled by luck.
TEST(Simd, ExpAtItsEnds) {
  const SimdProbe& probe = ProbeOf(BestCpuSet());
  const std::vector<float> x = {89.0F, 1e30F, INFINITY, -104.0F, -INFINITY, 0.0F, -0.0F, -100.0F,
                                0,     0,     0,        0,       0,         0,    0,     0};
  float out[16];
  for (int f = 0; f < probe.num_functions; ++f)
    if (probe.functions[f].name == "Exp")
      probe.functions[f].call(x.data(), x.data(), x.data(), out);
  EXPECT_EQ(out[0], INFINITY);
  EXPECT_EQ(out[1], INFINITY);
  EXPECT_EQ(out[2], INFINITY);
  EXPECT_EQ(out[3], 0.0F);
  EXPECT_EQ(out[4], 0.0F);
  EXPECT_EQ(out[5], 1.0F);
  EXPECT_EQ(out[6], 1.0F);
  EXPECT_NEAR(out[7], std::exp(-100.0), 1e-45);
}

// Kills: a tail that reads or writes one element too many (AddressSanitizer sees the read).
TEST(Simd, TailsTouchTheFirstNOnly) {
  for (const CpuOps* ops : AllCpuSets()) {
    const SimdProbe& probe = ProbeOf(*ops);
    for (int n = 0; n <= 16; ++n) {
      Buffer<float> in(n);
      for (int i = 0; i < n; ++i) in[i] = static_cast<float>(i + 1);
      float out[16];
      probe.load_first(in.data(), n, out);
      for (int i = 0; i < 16; ++i) EXPECT_EQ(out[i], i < n ? static_cast<float>(i + 1) : 0.0F);
      const std::vector<float> all(16, 5.0F);
      Buffer<float> to(n);
      probe.store_first(all.data(), n, to.data());
      for (int i = 0; i < n; ++i) EXPECT_EQ(to[i], 5.0F);
    }
  }
}

// The order of sums, spelled out.
float DotInOrder(const std::vector<float>& a, const std::vector<float>& b) {
  float sum[4][16] = {};
  for (std::size_t i = 0; i < a.size(); ++i) {
    float& lane = sum[i / 16 % 4][i % 16];
    lane = std::fma(a[i], b[i], lane);
  }
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = (sum[0][i] + sum[1][i]) + (sum[2][i] + sum[3][i]);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

// Kills: another order of sums, a lost tail.
TEST(Simd, DotRowHasTheHouseOrder) {
  for (const CpuOps* ops : AllCpuSets()) {
    for (std::size_t count : {0, 1, 15, 16, 37, 64, 65, 96, 127, 128, 7168}) {
      Random random(count);
      std::vector<float> a(count), b(count);
      random.FillNormal(std::span<float>(a));
      random.FillNormal(std::span<float>(b));
      const float got = ProbeOf(*ops).dot_row(a.data(), b.data(), static_cast<std::int64_t>(count));
      EXPECT_EQ(got, DotInOrder(a, b)) << ops->isa << " " << count;
    }
  }
}

}  // namespace
}  // namespace k3::kernels
