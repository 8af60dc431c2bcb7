#include "runtime/text/split.h"

#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "runtime/text/testing.h"
#include "runtime/text/utf8.h"

namespace k3::runtime::testing {
namespace {

// The classes the rule tells apart. Han characters of several categories are kinds of their own.
enum class Kind : std::uint8_t {
  kUpper,  // Lu, Lt
  kLower,  // Ll
  kBoth,   // Lm, Lo
  kMark,   // M: in both letter classes, and no letter
  kHanLetter,
  kHanNumber,
  kHanSymbol,
  kNumber,
  kNewline,
  kSpace,
  kOther,
};

struct Character {
  std::string text;
  Kind kind;
};

// By hand, from the Unicode tables; not by any library, or the test would ask the tested.
std::vector<Character> MakeAlphabet() {
  using namespace std::string_view_literals;
  const std::pair<Kind, std::string_view> kinds[] = {
      {Kind::kUpper, "ASÉΩ\u01C5"},
      {Kind::kLower, "aslrevté\u017Fß"},
      {Kind::kBoth, "あー한א\u02B0"},
      {Kind::kMark, "\u0301\u0903\u20DD"},
      {Kind::kHanLetter, "中\u3005\U00020000\U00031350\U0002EBF0"},
      {Kind::kHanNumber, "\u3007\u3021"},
      {Kind::kHanSymbol, "\u2E80\u2F00"},
      {Kind::kNumber, "1٣Ⅷ½"},
      {Kind::kNewline, "\n\r"},
      {Kind::kSpace, " \t\v\u0085\u00A0\u1680\u2003\u2028\u202F\u205F\u3000"},
      {Kind::kOther, "'!_。、😀\x1c\x1f\0\u180E\u200B\uFFFD\uE000"sv},
  };
  std::vector<Character> alphabet;
  for (auto [kind, text] : kinds) {
    while (!text.empty()) {
      const std::size_t length = StepUtf8(text).length;
      alphabet.push_back({std::string(text.substr(0, length)), kind});
      text.remove_prefix(length);
    }
  }
  return alphabet;
}

const std::vector<Character>& Alphabet() {
  static const std::vector<Character> alphabet = MakeAlphabet();
  return alphabet;
}

// The split rule once more, by hand and without backtracking: each function answers where a piece
// that begins at `at` ends, or `at` itself where its alternative does not match.
class HandSplitter {
 public:
  explicit HandSplitter(const std::vector<Character>& text) : text_(text) {}

  std::vector<std::string> Pieces() const {
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = PieceEnd(at);
      pieces.emplace_back();
      for (; at < end; ++at) pieces.back() += text_[at].text;
    }
    return pieces;
  }

 private:
  bool Is(std::size_t at, std::initializer_list<Kind> kinds) const {
    if (at >= text_.size()) return false;
    return std::find(kinds.begin(), kinds.end(), text_[at].kind) != kinds.end();
  }
  bool IsHan(std::size_t at) const {
    return Is(at, {Kind::kHanLetter, Kind::kHanNumber, Kind::kHanSymbol});
  }
  bool IsShared(std::size_t at) const { return Is(at, {Kind::kBoth, Kind::kMark}); }
  bool IsSpace(std::size_t at) const { return Is(at, {Kind::kSpace, Kind::kNewline}); }
  bool IsNumber(std::size_t at) const { return Is(at, {Kind::kNumber, Kind::kHanNumber}); }
  bool IsOther(std::size_t at) const {
    return Is(at, {Kind::kOther, Kind::kMark, Kind::kHanSymbol});
  }
  bool IsLead(std::size_t at) const { return Is(at, {Kind::kSpace}) || IsOther(at); }

  // Capitals, then at least one small letter. Letters of both cases count as capitals while they
  // can, so without a small letter behind them the last of them has to be the small one.
  std::size_t SmallWord(std::size_t at) const {
    std::size_t end = at;
    std::size_t after_shared = at;
    for (; Is(end, {Kind::kUpper}) || IsShared(end); ++end) {
      if (IsShared(end)) after_shared = end + 1;
    }
    if (!Is(end, {Kind::kLower})) return after_shared;
    while (Is(end, {Kind::kLower}) || IsShared(end)) ++end;
    return end;
  }

  std::size_t CapitalWord(std::size_t at) const {
    while (Is(at, {Kind::kUpper}) || IsShared(at)) ++at;
    return at;
  }

  std::size_t Contraction(std::size_t at) const {
    if (at >= text_.size() || text_[at].text != "'") return at;
    std::string next;
    for (std::size_t i = at + 1; i < std::min(at + 3, text_.size()); ++i) next += text_[i].text;
    for (const std::string one : {"s", "S", "\u017F", "t"}) {
      if (next.starts_with(one)) return at + 2;
    }
    for (const std::string two : {"re", "ve", "ll"}) {
      if (next == two) return at + 3;
    }
    return at;
  }

  std::size_t WordEnd(std::size_t at) const {
    const bool lead = IsLead(at);
    if (lead && SmallWord(at + 1) > at + 1) return Contraction(SmallWord(at + 1));
    if (SmallWord(at) > at) return Contraction(SmallWord(at));
    if (lead && CapitalWord(at + 1) > at + 1) return Contraction(CapitalWord(at + 1));
    if (CapitalWord(at) > at) return Contraction(CapitalWord(at));
    return at;
  }

  std::size_t OtherEnd(std::size_t at) const {
    std::size_t end = text_[at].text == " " ? at + 1 : at;
    if (!IsOther(end)) return at;
    while (IsOther(end)) ++end;
    while (Is(end, {Kind::kNewline})) ++end;
    return end;
  }

  std::size_t SpaceEnd(std::size_t at) const {
    std::size_t end = at;
    std::size_t after_newline = at;
    for (; IsSpace(end); ++end) {
      if (Is(end, {Kind::kNewline})) after_newline = end + 1;
    }
    if (after_newline > at) return after_newline;
    return end < text_.size() && end - at > 1 ? end - 1 : end;
  }

  std::size_t PieceEnd(std::size_t at) const {
    std::size_t end = at;
    while (IsHan(end)) ++end;
    if (end > at) return end;
    if (WordEnd(at) > at) return WordEnd(at);
    while (end < at + 3 && IsNumber(end)) ++end;
    if (end > at) return end;
    if (OtherEnd(at) > at) return OtherEnd(at);
    return SpaceEnd(at);
  }

  const std::vector<Character>& text_;
};

std::vector<std::string> Split(const PieceSplitter& splitter, const std::string& text) {
  std::vector<std::string_view> pieces;
  splitter.Split(text, pieces);
  return {pieces.begin(), pieces.end()};
}

// Kills: a character in the wrong class, alternatives in the wrong order, an intersection with Han
// forgotten in one of them, a lead taken from a letter, a contraction that is case-sensitive.
TEST(PieceSplitter, EqualsTheHandWrittenOne) {
  const PieceSplitter splitter;
  std::mt19937 random = PrintedSeed();
  for (int round = 0; round < 30'000; ++round) {
    std::vector<Character> text;
    std::string joined;
    for (std::uint32_t left = 1 + random() % 12; left > 0; --left) {
      // Repeats make runs, without which few of the alternatives' rests are met.
      const bool repeat = !text.empty() && random() % 4 == 0;
      text.push_back(repeat ? Character(text.back()) : Alphabet()[random() % Alphabet().size()]);
      joined += text.back().text;
    }
    ASSERT_EQ(Split(splitter, joined), HandSplitter(text).Pieces()) << joined;
  }
}

// Kills: the same, for every pair and triple of kinds (two characters each would be 200,000).
TEST(PieceSplitter, EqualsTheHandWrittenOneOnAllTriples) {
  const PieceSplitter splitter;
  std::vector<Character> letters;
  for (const char* text : {"A", "a", "s", "あ", "\u0301", "中", "\u3007", "\u2E80", "1", "\n", " ",
                           "\u3000", "'", "!", "\x1c"}) {
    for (const Character& one : Alphabet()) {
      if (one.text == text) letters.push_back(one);
    }
  }
  ASSERT_EQ(letters.size(), 15U);
  for (const Character& a : letters) {
    for (const Character& b : letters) {
      for (const Character& c : letters) {
        const std::string joined = a.text + b.text + c.text;
        ASSERT_EQ(Split(splitter, joined), HandSplitter({a, b, c}).Pieces()) << joined;
      }
    }
  }
}

std::string Repeat(const std::string& unit, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += unit;
  return text;
}

std::vector<std::size_t> CutCharacters(const std::string& text) {
  std::vector<std::size_t> counts;
  for (std::string_view cut : CutLongInput(text)) {
    counts.push_back(0);
    for (; !cut.empty(); cut.remove_prefix(StepUtf8(cut).length)) ++counts.back();
  }
  return counts;
}

// Kills: a limit one off, bytes counted instead of characters, a run that goes on through the other
// class, a cut that does not begin a new run, the rule's white space in place of Python's.
TEST(CutLongInput, CutsRuns) {
  using Counts = std::vector<std::size_t>;
  EXPECT_EQ(CutCharacters(Repeat("a", 25'000)), Counts({25'000}));
  EXPECT_EQ(CutCharacters(Repeat("a", 25'001)), Counts({25'000, 1}));
  EXPECT_EQ(CutCharacters(Repeat("中", 50'001)), Counts({25'000, 25'000, 1}));
  EXPECT_EQ(CutCharacters(Repeat("a", 20'000) + " " + Repeat("a", 20'000)), Counts({40'001}));
  EXPECT_EQ(CutCharacters("ab" + Repeat("\u3000", 25'001) + "b"), Counts({25'002, 2}));
  EXPECT_EQ(CutCharacters(Repeat("a1。", 9'000)), Counts({25'000, 2'000}));
  EXPECT_EQ(CutCharacters(Repeat("a\x1c", 20'000)), Counts({40'000}));
  EXPECT_EQ(CutCharacters(Repeat(" \x1c", 13'000)), Counts({25'000, 1'000}));
}

// Kills: a chunk limit one off, or a run that is counted across a chunk's end.
TEST(CutLongInput, CutsChunks) {
  using Counts = std::vector<std::size_t>;
  EXPECT_EQ(CutCharacters(Repeat("é ", 200'000)), Counts({400'000}));
  EXPECT_EQ(CutCharacters(Repeat("a ", 200'001)), Counts({400'000, 2}));
  const std::string text = Repeat("a ", 190'000) + Repeat("b", 45'000) + " c";
  EXPECT_EQ(CutCharacters(text), Counts({400'000, 25'002}));
}

}  // namespace
}  // namespace k3::runtime::testing
