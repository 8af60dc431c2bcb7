// What values of settings look like: each of these reads one form of text into its target.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/settings.h"

namespace k3::server {

// A whole number in [least, most].
TakeValue Whole(std::int64_t least, std::int64_t most, std::function<void(std::int64_t)> put);
template <typename T>
TakeValue Whole(std::int64_t least, std::int64_t most, T& target) {
  return Whole(least, most, [&target](std::int64_t value) { target = static_cast<T>(value); });
}

// Bytes with K, M, G or T, powers of 1024; from 0 to `most`.
TakeValue Bytes(std::int64_t most, std::function<void(std::int64_t)> put);

TakeValue Text(std::string& target);     // whatever it is
TakeValue Address(std::string& target);  // not empty

using Choices = std::vector<std::string>;
TakeValue OneOf(Choices choices, std::function<void(const std::string&)> put);

// Elements between commas, none of them empty; no text is no element.
TakeValue List(std::vector<std::string>& target);

TakeValue Switch(bool& target);  // true, false, 1, 0

}  // namespace k3::server
