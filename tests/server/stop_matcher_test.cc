#include "server/stop_matcher.h"

#include <random>

#include <gtest/gtest.h>

namespace k3::server {
namespace {

struct Seen {
  std::string shown;
  std::optional<std::string> found;
};

Seen Feed(const std::vector<std::string>& strings, bool include, const std::string& text,
          std::mt19937& rng) {
  StopMatcher matcher(strings, include);
  Seen seen;
  for (std::size_t at = 0; at < text.size() && !seen.found;) {
    const std::size_t length = 1 + rng() % 4;
    const StopMatcher::Piece piece = matcher.Push(text.substr(at, length));
    seen.shown += piece.text;
    seen.found = piece.found;
    at += length;
  }
  if (!seen.found) seen.shown += matcher.Flush();
  return seen;
}

// The definition: byte by byte, which string ends first here?
Seen Define(const std::vector<std::string>& strings, bool include, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    const std::string* best = nullptr;
    for (const std::string& string : strings) {
      if (!text.substr(0, end).ends_with(string)) continue;
      if (best == nullptr || string.size() > best->size()) best = &string;
    }
    if (best == nullptr) continue;
    return {text.substr(0, include ? end : end - best->size()), *best};
  }
  return {text, std::nullopt};
}

// Kills: a match across pieces missed, its beginning shown, text lost when a beginning comes to
// nothing ("aab" after "aaab"), the longer of two taken though the shorter was complete first,
// the stop string shown or hidden against `include`, held text dropped at the end.
TEST(StopMatcher, AsDefinedHoweverTheTextIsCut) {
  const unsigned seed = std::random_device{}();
  std::mt19937 rng(seed);
  const auto random = [&rng](std::size_t least, std::size_t most) {
    std::string text(least + rng() % (most - least + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + rng() % 3);
    return text;
  };
  int found = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> strings(rng() % 4);
    for (std::string& string : strings) string = random(1, 5);
    const std::string text = random(0, 24);
    const bool include = rng() % 2 == 0;
    const Seen got = Feed(strings, include, text, rng);
    const Seen want = Define(strings, include, text);
    // A piece may hold two complete ones: the definition's comes first there, too.
    ASSERT_EQ(got.shown, want.shown) << "seed " << seed << " round " << round;
    ASSERT_EQ(got.found, want.found) << "seed " << seed << " round " << round;
    found += got.found ? 1 : 0;
  }
  EXPECT_GT(found, 1000);
}

// Kills: text held back though nothing begins with it.
TEST(StopMatcher, ShowsWhatCannotMatch) {
  StopMatcher matcher({"END"}, false);
  EXPECT_EQ(matcher.Push("the E").text, "the ");
  EXPECT_EQ(matcher.Push("N").text, "");
  EXPECT_EQ(matcher.Push("T").text, "ENT");
  EXPECT_EQ(StopMatcher().Push("abc").text, "abc");
}

}  // namespace
}  // namespace k3::server
