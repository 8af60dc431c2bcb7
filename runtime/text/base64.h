// Strict base64 (RFC 4648, section 4): whole groups of four, padding only at the end and with its
// unused bits zero, so that a byte string has exactly one spelling.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace k3::runtime {

// Nothing where `text` is not such base64.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace k3::runtime
