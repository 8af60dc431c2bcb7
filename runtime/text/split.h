// Cuts text into the pieces that are merged on their own: the split rule of K3 (architecture notes
// 4.1). The pieces, one after another, are the text.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

struct pcre2_real_code_8;  // of PCRE2, which only split.cc includes

namespace k3::runtime {

// Limits of the reference, in characters. A cut is a token boundary, so ids depend on them.
inline constexpr std::size_t kMaxCutCharacters = 400'000;
inline constexpr std::size_t kMaxRunCharacters = 25'000;

// First cut: every kMaxCutCharacters, and inside a run of more than kMaxRunCharacters characters
// that are all white space or all not. White space here is Python's, which unlike the split rule's
// has U+001C..U+001F, because the reference is a Python program. `text` is well-formed.
std::vector<std::string_view> CutLongInput(std::string_view text);

// Second cut: the eight alternatives. Linear in the text; any thread may call it.
class PieceSplitter {
 public:
  PieceSplitter();

  // Appends the pieces of `text`, which is well-formed. The rule sees nothing beyond its ends.
  void Split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
};

}  // namespace k3::runtime
