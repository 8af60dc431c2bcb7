#include "kernels/testing/random.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace k3::kernels {

std::uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

double Random::Uniform() {
  return static_cast<double>(Next() >> 11) * 0x1p-53;
}

int Random::Below(int count) {
  return static_cast<int>(Next() % static_cast<std::uint64_t>(count));
}

float Random::Normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));
  return static_cast<float>(radius * std::cos(6.283185307179586 * Uniform()));
}

void Random::FillNormal(std::span<float> out, float deviation, float mean) {
  for (float& value : out) value = mean + deviation * Normal();
}

void Random::FillNormal(std::span<Bf16> out, float deviation, float mean) {
  for (Bf16& value : out) value = ToBf16(mean + deviation * Normal());
}

void Random::FillBytes(std::span<std::uint8_t> out) {
  for (std::uint8_t& value : out) value = static_cast<std::uint8_t>(Next());
}

void Random::FillScales(std::span<std::uint8_t> out, int low, int high) {
  for (std::uint8_t& value : out) value = static_cast<std::uint8_t>(low + Below(high - low + 1));
}

std::uint64_t LawSeed(std::uint64_t fixed) {
  const char* seconds = std::getenv("K3_LAW_SECONDS");
  const bool fresh = seconds != nullptr && std::atoi(seconds) > 0;
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  const std::uint64_t seed = fresh ? static_cast<std::uint64_t>(now) : fixed;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace k3::kernels
