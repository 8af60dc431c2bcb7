#include "server/settings_file.h"

#include <algorithm>
#include <fmt/format.h>
#include <sstream>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "runtime/config/read_file.h"

namespace k3::server {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;

// Reads the entries of one file's map.
class FileReader {
 public:
  FileReader(const SettingTable& table, const std::string& path, Faults& faults)
      : table_(table), path_(path), faults_(faults) {}

  void Entry(const YAML::Node& key, const YAML::Node& value) {
    if (!key.IsScalar()) return Fault(At(key.Mark()), "a key that is not a name");
    const std::string where = fmt::format("{} key {}", At(key.Mark()), key.Scalar());
    std::string name = key.Scalar();
    std::replace(name.begin(), name.end(), '_', '-');
    const SettingSpec* spec = table_.Find(name);
    if (spec == nullptr) {
      const std::string meant = table_.Nearest(name);
      return Fault(where,
                   "no such setting" + (meant.empty() ? "" : "; did you mean " + meant + "?"));
    }
    if (spec->kind == SettingKind::kFile) return Fault(where, "a file names no further file");
    if (value.IsNull()) return Fault(where, "no value; an empty one is \"\"");
    if (value.IsSequence() && spec->kind == SettingKind::kList) {
      if (const auto list = Joined(value)) return Take(*spec, *list, where);
    }
    if (!value.IsScalar()) return Fault(where, "expected one value");
    Take(*spec, value.Scalar(), where);
  }

  std::string At(const YAML::Mark& mark) const {
    return mark.is_null() ? path_ : fmt::format("{}:{}", path_, mark.line + 1);
  }
  void Fault(const std::string& where, const std::string& what) {
    faults_.push_back(where + ": " + what);
  }
  std::vector<Given> given() && { return std::move(given_); }

 private:
  static std::optional<std::string> Joined(const YAML::Node& sequence) {
    std::vector<std::string> items;
    for (const YAML::Node& item : sequence) {
      if (!item.IsScalar()) return std::nullopt;
      items.push_back(item.Scalar());
    }
    return fmt::format("{}", fmt::join(items, ","));
  }
  void Take(const SettingSpec& spec, const std::string& value, const std::string& where) {
    given_.push_back({&spec, value, Origin::kFile, where});
  }

  const SettingTable& table_;
  const std::string& path_;
  Faults& faults_;
  std::vector<Given> given_;
};

// Goes over a document without looking at it.
class Unread final : public YAML::EventHandler {
  using Style = YAML::EmitterStyle::value;
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, Style) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, Style) override {}
  void OnMapEnd() override {}
};

// Load reads the first document and passes over the rest. LoadAll would do, but yaml-cpp 0.7 finds
// empty documents without end in the file ",".
bool HasOneDocument(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Unread first;
  parser.HandleNextDocument(first);
  return !parser;
}

}  // namespace

std::vector<Given> FromFile(const SettingTable& table, const std::string& path,
                            const std::string& where, Faults& faults) {
  const Result<std::string> text = runtime::ReadFile(path, kMaxFileBytes);
  if (!text.ok()) {
    faults.push_back(where + ": " + text.error().message);
    return {};
  }
  FileReader reader(table, path, faults);
  try {
    const YAML::Node root = YAML::Load(text.value());
    if (!HasOneDocument(text.value()) || (!root.IsMap() && !root.IsNull())) {
      reader.Fault(path, "expected lines such as max-num-seqs: 16, and nothing else");
    }
    if (!root.IsMap()) return {};
    for (const auto& entry : root) reader.Entry(entry.first, entry.second);
  } catch (const YAML::Exception& error) {
    reader.Fault(reader.At(error.mark), error.msg);
  }
  return std::move(reader).given();
}

std::string ToYaml(const std::vector<Setting>& settings) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const Setting& setting : settings) {
    out << YAML::Key << setting.name << YAML::Value << setting.value
        << YAML::Comment(setting.origin);
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace k3::server
