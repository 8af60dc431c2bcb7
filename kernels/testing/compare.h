// Comparison kit: names the worst element instead of printing thousands.
#pragma once
#include <span>
#include <string>

#include "kernels/testing/buffer.h"

namespace k3::kernels {

// |got - want| <= absolute + relative * |want| everywhere; NaN equals only NaN. A failure reports
// the worst element and how many were off.
void ExpectNear(std::span<const float> got, std::span<const float> want, double absolute,
                double relative, const std::string& what = "");
inline void ExpectNear(const Matrix<float>& got, const Matrix<float>& want, double absolute,
                       double relative, const std::string& what = "") {
  ExpectNear(got.span(), want.span(), absolute, relative, what);
}

// The largest |got - want|, for tests that print what they measured.
double MaxError(std::span<const float> got, std::span<const float> want);

// Equal bit by bit (NaN payloads and signs of zero included).
void ExpectSameBytes(const void* got, const void* want, std::size_t bytes,
                     const std::string& what = "");
template <typename T>
void ExpectSameBits(std::span<T> got, std::span<T> want, const std::string& what = "") {
  K3_CHECK(got.size() == want.size());
  ExpectSameBytes(got.data(), want.data(), got.size_bytes(), what);
}
template <typename T>
void ExpectSameBits(const Matrix<T>& got, const Matrix<T>& want, const std::string& what = "") {
  ExpectSameBits(got.span(), want.span(), what);
}

}  // namespace k3::kernels
