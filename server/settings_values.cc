#include "server/settings_values.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>
#include <sstream>
#include <utility>

namespace k3::server {
namespace {

std::optional<std::int64_t> Number(std::string_view text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace

TakeValue Whole(std::int64_t least, std::int64_t most, std::function<void(std::int64_t)> put) {
  return
      [least, most, put = std::move(put)](const std::string& text) -> std::optional<std::string> {
        const std::optional<std::int64_t> number = Number(text);
        if (!number || *number < least || *number > most) {
          return fmt::format("a whole number from {} to {}", least, most);
        }
        put(*number);
        return std::nullopt;
      };
}

TakeValue Bytes(std::int64_t most, std::function<void(std::int64_t)> put) {
  return [most, put = std::move(put)](const std::string& text) -> std::optional<std::string> {
    static constexpr std::string_view kSuffixes = "KMGT";
    std::string_view digits = text;
    int shift = 0;
    const std::size_t suffix = text.empty() ? std::string::npos : kSuffixes.find(text.back());
    if (suffix != std::string::npos) {
      shift = 10 * (static_cast<int>(suffix) + 1);
      digits.remove_suffix(1);
    }
    const std::optional<std::int64_t> number = Number(digits);
    if (!number || *number < 0 || *number > (most >> shift)) {
      return fmt::format("bytes, such as 512M or 8G, at most {}", most);
    }
    put(*number << shift);
    return std::nullopt;
  };
}

TakeValue Text(std::string& target) {
  return [&target](const std::string& text) -> std::optional<std::string> {
    target = text;
    return std::nullopt;
  };
}

TakeValue Address(std::string& target) {
  return [&target](const std::string& text) -> std::optional<std::string> {
    if (text.empty()) return "an address";
    target = text;
    return std::nullopt;
  };
}

TakeValue OneOf(Choices choices, std::function<void(const std::string&)> put) {
  return [choices = std::move(choices),
          put = std::move(put)](const std::string& text) -> std::optional<std::string> {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      return fmt::format("one of {}", fmt::join(choices, ", "));
    }
    put(text);
    return std::nullopt;
  };
}

TakeValue List(std::vector<std::string>& target) {
  return [&target](const std::string& text) -> std::optional<std::string> {
    std::vector<std::string> elements;
    std::istringstream rest(text);
    for (std::string element; std::getline(rest, element, ',');) elements.push_back(element);
    const bool open_end = text.ends_with(',');
    if (open_end || std::find(elements.begin(), elements.end(), "") != elements.end()) {
      return "names with a comma between them";
    }
    target = std::move(elements);
    return std::nullopt;
  };
}

TakeValue Switch(bool& target) {
  return [&target](const std::string& text) -> std::optional<std::string> {
    const bool on = text == "true" || text == "1";
    if (!on && text != "false" && text != "0") return "true or false";
    target = on;
    return std::nullopt;
  };
}

}  // namespace k3::server
