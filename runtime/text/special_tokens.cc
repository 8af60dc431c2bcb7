#include "runtime/text/special_tokens.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/config/fault_list.h"
#include "runtime/config/read_file.h"

namespace k3::runtime {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

std::optional<std::int32_t> WholeNumber(const std::string& text) {
  std::int32_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

// Reads one tokenizer_config.json and keeps the faults on the way.
class SpecialReader {
 public:
  SpecialReader(const std::string& path, std::int32_t first_id)
      : path_(path), first_id_(first_id), table_(first_id) {}

  Result<SpecialTokens> Read(std::string_view text) {
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object()) {
      Fault("is not a JSON object");
      return faults_.ToError();
    }
    ReadAddedTokens(json);
    FillTable();
    ReadEos(json);
    if (!faults_.empty()) return faults_.ToError();
    return std::move(table_);
  }

 private:
  void Fault(const std::string& what) { faults_.Add(Code::kInvalidArgument, path_ + ": " + what); }

  void ReadAddedTokens(const nlohmann::json& json) {
    const auto found = json.find("added_tokens_decoder");
    if (found == json.end() || !found->is_object()) {
      return Fault("added_tokens_decoder is absent or not an object, expected {id: {content, ..}}");
    }
    for (const auto& [key, value] : found->items()) ReadAddedToken(key, value);
  }

  void ReadAddedToken(const std::string& key, const nlohmann::json& value) {
    const std::string where = "added_tokens_decoder[\"" + key + "\"]";
    const std::optional<std::int32_t> id = WholeNumber(key);
    const std::int32_t end = first_id_ + SpecialTokens::kReserved;
    if (!id || *id < first_id_ || *id >= end) {
      Fault(where + ": the id is outside of " + std::to_string(first_id_) + ".." +
            std::to_string(end - 1) + ", the slots behind the base vocabulary");
    }
    const bool object = value.is_object();
    const auto content = object ? value.find("content") : value.end();
    const bool named = object && content != value.end() && content->is_string() &&
                       !content->get_ref<const std::string&>().empty();
    if (!named) Fault(where + ".content is absent, empty or not a string");
    const auto special = object ? value.find("special") : value.end();
    const bool flagged = object && special != value.end() && special->is_boolean();
    if (!flagged) Fault(where + ".special is absent or not true or false");
    if (id && named && flagged) {
      named_[*id] = {content->get<std::string>(), special->get<bool>()};
    }
  }

  void FillTable() {
    std::set<std::size_t, std::greater<>> lengths;
    std::set<char> first_bytes;
    for (std::int32_t id = first_id_; id < first_id_ + SpecialTokens::kReserved; ++id) {
      const auto found = named_.find(id);
      SpecialToken token = {"<|reserved_token_" + std::to_string(id) + "|>", true};
      if (found != named_.end()) token = found->second;
      const auto [other, fresh] = table_.ids_.try_emplace(token.name, id);
      if (!fresh) {
        Fault("added_tokens_decoder: ids " + std::to_string(other->second) + " and " +
              std::to_string(id) + " have the same content \"" + token.name + "\"");
      }
      lengths.insert(token.name.size());
      first_bytes.insert(token.name.front());
      table_.tokens_.push_back(std::move(token));
    }
    table_.lengths_.assign(lengths.begin(), lengths.end());
    table_.first_bytes_.assign(first_bytes.begin(), first_bytes.end());
  }

  void ReadEos(const nlohmann::json& json) {
    const auto found = json.find("eos_token");
    if (found == json.end() || !found->is_string()) {
      return Fault("eos_token is absent or not a string");
    }
    const auto& name = found->get_ref<const std::string&>();
    table_.eos_id_ = table_.Find(name);
    if (!table_.eos_id_) {
      Fault("eos_token \"" + name + "\" is not the content of any added token");
    }
  }

  const std::string& path_;
  std::int32_t first_id_;
  FaultList faults_;
  std::map<std::int32_t, SpecialToken> named_;
  SpecialTokens table_;
};

Result<SpecialTokens> SpecialTokens::Parse(std::string_view json, const std::string& path,
                                           std::int32_t first_id) {
  return SpecialReader(path, first_id).Read(json);
}

Result<SpecialTokens> SpecialTokens::Load(const std::string& path, std::int32_t first_id) {
  const Result<std::string> text = ReadFile(path, kMaxBytes);
  if (!text.ok()) return text.error();
  return Parse(text.value(), path, first_id);
}

const SpecialToken& SpecialTokens::token(std::int32_t id) const {
  K3_CHECK(id >= first_id_);
  K3_CHECK(id < first_id_ + size());
  return tokens_[static_cast<std::size_t>(id - first_id_)];
}

std::optional<std::int32_t> SpecialTokens::Find(std::string_view name) const {
  const auto found = ids_.find(name);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<SpecialMatch> SpecialTokens::MatchAt(std::string_view text) const {
  for (const std::size_t length : lengths_) {
    if (length > text.size()) continue;
    if (const auto id = Find(text.substr(0, length))) return SpecialMatch{*id, length};
  }
  return std::nullopt;
}

}  // namespace k3::runtime
