#include "server/settings_file.h"

#include <algorithm>
#include <fmt/format.h>
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
    const std::vector<YAML::Node> documents = YAML::LoadAll(text.value());
    if (documents.size() > 1) reader.Fault(path, "more than one document");
    if (documents.empty() || documents[0].IsNull()) return {};
    if (!documents[0].IsMap()) {
      reader.Fault(path, "expected lines such as max-num-seqs: 16");
      return {};
    }
    for (const auto& entry : documents[0]) reader.Entry(entry.first, entry.second);
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
