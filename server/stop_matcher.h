// Finds the first stop string in a text that comes in pieces, and holds back what may become one.
//   1. What Push showed is never part of a stop string that is found later, however the text is
//   cut.
//   2. The first to be complete wins; of two that are complete at once, the one that began earlier.
//   3. Nothing is held that no stop string begins with.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace k3::server {

class StopMatcher {
 public:
  StopMatcher() = default;  // of none: shows everything at once
  // `strings` are not empty. `include`: a stop string that is found is shown, too.
  StopMatcher(std::vector<std::string> strings, bool include)
      : strings_(std::move(strings)), include_(include) {}

  struct Piece {
    std::string text;                  // to show
    std::optional<std::string> found;  // this stop string; nothing may be pushed after it
  };
  Piece Push(std::string_view text);

  // The text is over: what was held back.
  std::string Flush() { return std::exchange(held_, {}); }

 private:
  std::vector<std::string> strings_;
  bool include_ = false;
  std::string held_;
};

}  // namespace k3::server
