// Random inputs with a printed seed: the same numbers on every machine (no std distribution).
#pragma once
#include <cstdint>
#include <span>

#include "kernels/base/bf16.h"

namespace k3::kernels {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next();  // 64 random bits
  double Uniform();      // [0, 1)
  int Below(int count);  // [0, count)
  float Normal();        // mean 0, deviation 1
  float Between(float low, float high) {
    return low + (high - low) * static_cast<float>(Uniform());
  }

  void FillNormal(std::span<float> out, float deviation = 1.0F, float mean = 0.0F);
  void FillNormal(std::span<Bf16> out, float deviation = 1.0F, float mean = 0.0F);
  void FillBytes(std::span<std::uint8_t> out);
  // Scale bytes of an MXFP4 weight, low..high: random bytes would make infinities.
  void FillScales(std::span<std::uint8_t> out, int low, int high);

 private:
  std::uint64_t state_;
};

// K3_LAW_SECONDS > 0 makes law tests take a new seed and run that long; 0 = the fixed seeds.
std::uint64_t LawSeed(std::uint64_t fixed);

}  // namespace k3::kernels
