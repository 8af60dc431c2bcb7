#include "runtime/text/base64.h"

#include <cstddef>
#include <cstdint>

namespace k3::runtime {
namespace {

constexpr std::uint32_t kNoDigit = 64;

std::uint32_t DigitOf(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<std::uint32_t>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<std::uint32_t>(c - 'a') + 26;
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0') + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return kNoDigit;
}

}  // namespace

std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t digits = text.size();
  for (int padding = 0; padding < 2 && digits > 0 && text[digits - 1] == '='; ++padding) --digits;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text.substr(0, digits)) {
    const std::uint32_t digit = DigitOf(c);
    if (digit == kNoDigit) return std::nullopt;
    bits = (bits << 6) | digit;
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes += static_cast<char>(bits >> num_bits);
    bits &= (1U << num_bits) - 1;
  }
  if (bits != 0) return std::nullopt;
  return bytes;
}

}  // namespace k3::runtime
