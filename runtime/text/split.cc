#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/text/split.h"

#include <pcre2.h>
#include <string>

#include "kernels/base/check.h"
#include "runtime/text/utf8.h"

namespace k3::runtime {
namespace {

bool IsPythonSpace(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  if (c >= 0x2000 && c <= 0x200A) return true;
  switch (c) {
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return false;
  }
}

// The rule for PCRE2, which has no set intersection. A letter class without Han is written as the
// complement of everything else: one class without look-ahead repeats without a stack.
//   - \p{Han} alone would mean Script_Extensions, which has U+3001; sc: is the script itself.
//   - Ideographs younger than the Unicode 14 of PCRE2 10.42 are added by hand.
//   - \s of PCRE2 would take U+180E in, so white space is spelt out.
std::string Pattern() {
  const std::string young = R"(\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
  const std::string han = R"(\p{sc:Han})" + young;
  const std::string space = R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A})"
                            R"(\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
  const std::string no_letter = R"(\p{N}\p{P}\p{S}\p{Z}\p{C})" + han;
  const std::string upper = R"([^\p{Ll})" + no_letter + "]";
  const std::string lower = R"([^\p{Lu}\p{Lt})" + no_letter + "]";
  const std::string lead = R"([^\r\n\p{L}\p{N})" + young + "]?";
  const std::string contraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
  const std::string other = "[^" + space + R"(\p{L}\p{N})" + young + "]";
  return "[" + han + "]+"                                        //
         + "|" + lead + upper + "*" + lower + "+" + contraction  //
         + "|" + lead + upper + "+" + lower + "*" + contraction  //
         + R"(|\p{N}{1,3})"                                      //
         + "| ?" + other + R"(+[\r\n]*)"                         //
         + "|[" + space + R"(]*[\r\n]+)"                         //
         + "|[" + space + "]+(?![^" + space + "])"               //
         + "|[" + space + "]+";
}

PCRE2_SPTR Units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

std::vector<std::string_view> CutLongInput(std::string_view text) {
  if (text.size() <= kMaxRunCharacters) return {text};
  std::vector<std::string_view> cuts;
  std::size_t begin = 0;
  std::size_t characters = 0;
  std::size_t run = 0;
  bool run_is_space = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = StepUtf8(text.substr(at)).length;
    const bool is_space = IsPythonSpace(CodePoint(text.substr(at, length)));
    const bool chunk_full = characters == kMaxCutCharacters;
    const bool run_full = run == kMaxRunCharacters && is_space == run_is_space;
    if (chunk_full || run_full) {
      cuts.push_back(text.substr(begin, at - begin));
      begin = at;
      run = 0;
    }
    if (chunk_full) characters = 0;
    if (is_space != run_is_space) run = 0;
    run_is_space = is_space;
    ++run;
    ++characters;
    at += length;
  }
  cuts.push_back(text.substr(begin));
  return cuts;
}

void PieceSplitter::FreeCode::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

PieceSplitter::PieceSplitter() {
  const std::string pattern = Pattern();
  int error = 0;
  std::size_t where = 0;
  code_.reset(pcre2_compile(Units(pattern), pattern.size(), PCRE2_UTF, &error, &where, nullptr));
  K3_CHECK(code_ != nullptr);
  // Where the system forbids writable code, matching falls back to the interpreter: same pieces.
  static_cast<void>(pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE));
}

void PieceSplitter::Split(std::string_view text, std::vector<std::string_view>& pieces) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  K3_CHECK(match != nullptr);
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
  for (std::size_t at = 0; at < text.size(); at = bounds[1]) {
    // Every character is in some alternative, so a match always begins where the last one ended;
    // anything else, an exhausted limit too, would drop text silently.
    const int count = pcre2_match(code_.get(), Units(text), text.size(), at, PCRE2_NO_UTF_CHECK,
                                  match.get(), nullptr);
    K3_CHECK(count == 1);
    K3_CHECK(bounds[0] == at);
    K3_CHECK(bounds[1] > at);
    pieces.push_back(text.substr(at, bounds[1] - at));
  }
}

}  // namespace k3::runtime
