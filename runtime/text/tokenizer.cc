#include "runtime/text/tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/text/utf8.h"

namespace k3::runtime {

// One encoding: its scratch space and the ids so far. All that changes is in here, which is why
// Encode is const and threads do not meet.
class Tokenizer::Call {
 public:
  explicit Call(const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), encoder_(tokenizer.vocabulary_.base(), tokenizer.merges_) {}

  void Ordinary(std::string_view text) {
    pieces_.clear();
    tokenizer_.splitter_.Split(text, pieces_);
    for (const std::string_view piece : pieces_) encoder_.Encode(piece, ids_);
  }

  // The split rule does not see across a control token.
  void WithSpecials(std::string_view text) {
    const SpecialTokens& specials = tokenizer_.vocabulary_.specials();
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      at = std::min(text.find_first_of(specials.first_bytes(), at), text.size());
      const std::optional<SpecialMatch> match = specials.MatchAt(text.substr(at));
      if (!match) {
        ++at;
        continue;
      }
      Ordinary(text.substr(begin, at - begin));
      ids_.push_back(match->id);
      at += match->length;
      begin = at;
    }
    Ordinary(text.substr(begin));
  }

  std::vector<std::int32_t> TakeIds() { return std::move(ids_); }

 private:
  const Tokenizer& tokenizer_;
  PieceEncoder encoder_;
  std::vector<std::string_view> pieces_;
  std::vector<std::int32_t> ids_;
};

namespace {

// The well-formed reading of `text`: itself, or what `storage` then holds.
std::string_view WellFormed(std::string_view text, std::string& storage) {
  if (!FirstIllFormed(text)) return text;
  storage = ReplaceIllFormed(text);
  return storage;
}

}  // namespace

Result<Tokenizer> Tokenizer::Load(const std::string& checkpoint_dir) {
  Result<Vocabulary> vocabulary = Vocabulary::Load(checkpoint_dir);
  if (!vocabulary.ok()) return vocabulary.error();
  return Tokenizer(std::move(vocabulary).value());
}

Tokenizer::Tokenizer(Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)), merges_(vocabulary_.base()) {}

std::vector<std::int32_t> Tokenizer::Encode(std::string_view text) const {
  std::string storage;
  Call call(*this);
  for (const std::string_view cut : CutLongInput(WellFormed(text, storage))) call.Ordinary(cut);
  return call.TakeIds();
}

std::vector<std::int32_t> Tokenizer::EncodeWithSpecials(std::string_view text) const {
  std::string storage;
  Call call(*this);
  for (const std::string_view cut : CutLongInput(WellFormed(text, storage))) {
    call.WithSpecials(cut);
  }
  return call.TakeIds();
}

}  // namespace k3::runtime
