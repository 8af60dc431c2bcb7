#include "kernels/testing/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

namespace k3::kernels {
namespace {

// How far beyond its allowance a value is: 1 is just allowed.
double Excess(float got, float want, double absolute, double relative) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : 1e300;
  if (got == want) return 0;
  const double error = std::fabs(static_cast<double>(got) - want);
  const double allowed = absolute + relative * std::fabs(static_cast<double>(want));
  if (!std::isfinite(error)) return 1e300;
  return allowed > 0 ? error / allowed : 1e300;
}

}  // namespace

void ExpectNear(std::span<const float> got, std::span<const float> want, double absolute,
                double relative, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  std::size_t worst = 0;
  std::size_t off = 0;
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double excess = Excess(got[i], want[i], absolute, relative);
    if (excess > 1) ++off;
    if (excess > most) {
      most = excess;
      worst = i;
    }
  }
  EXPECT_EQ(off, 0U) << what << ": " << off << " of " << got.size() << " are off; the worst is ["
                     << worst << "] = " << got[worst] << ", want " << want[worst] << ", " << most
                     << " times the allowance (abs " << absolute << ", rel " << relative << ")";
}

double MaxError(std::span<const float> got, std::span<const float> want) {
  K3_CHECK(got.size() == want.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::fabs(static_cast<double>(got[i]) - want[i]));
  return worst;
}

void ExpectSameBytes(const void* got, const void* want, std::size_t bytes,
                     const std::string& what) {
  if (bytes == 0 || std::memcmp(got, want, bytes) == 0) return;
  const auto* a = static_cast<const unsigned char*>(got);
  const auto* b = static_cast<const unsigned char*>(want);
  const std::size_t first = static_cast<std::size_t>(std::mismatch(a, a + bytes, b).first - a);
  const std::size_t word = first / 4 * 4;
  std::string values;
  if (word + 4 <= bytes) {
    float x = 0;
    float y = 0;
    std::memcpy(&x, a + word, 4);
    std::memcpy(&y, b + word, 4);
    values = " (as floats " + std::to_string(x) + " and " + std::to_string(y) + ")";
  }
  ADD_FAILURE() << what << ": bits differ first at byte " << first << " of " << bytes
                << ", 32-bit word " << first / 4 << values;
}

}  // namespace k3::kernels
