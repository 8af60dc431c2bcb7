#include "server/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace k3::server {
namespace {

struct Match {
  std::size_t begin = 0, end = 0;
  const std::string* string = nullptr;
};

std::optional<Match> FirstComplete(const std::vector<std::string>& strings, std::string_view text) {
  std::optional<Match> first;
  for (const std::string& string : strings) {
    const std::size_t begin = text.find(string);
    if (begin == std::string_view::npos) continue;
    const Match match{begin, begin + string.size(), &string};
    if (!first || std::pair(match.end, match.begin) < std::pair(first->end, first->begin)) {
      first = match;
    }
  }
  return first;
}

// How many bytes at the end of `text` may be the beginning of a stop string.
std::size_t LongestBeginning(const std::vector<std::string>& strings, std::string_view text) {
  std::size_t longest = 0;
  for (const std::string& string : strings) {
    for (std::size_t n = std::min(string.size() - 1, text.size()); n > longest; --n) {
      if (text.ends_with(std::string_view(string).substr(0, n))) longest = n;
    }
  }
  return longest;
}

}  // namespace

StopMatcher::Piece StopMatcher::Push(std::string_view text) {
  held_ += text;
  Piece piece;
  if (const std::optional<Match> match = FirstComplete(strings_, held_)) {
    piece.text = held_.substr(0, include_ ? match->end : match->begin);
    piece.found = *match->string;
    held_.clear();
    return piece;
  }
  const std::size_t shown = held_.size() - LongestBeginning(strings_, held_);
  piece.text = held_.substr(0, shown);
  held_.erase(0, shown);
  return piece;
}

}  // namespace k3::server
