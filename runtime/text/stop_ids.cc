#include "runtime/text/stop_ids.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "runtime/config/fault_list.h"
#include "runtime/config/read_file.h"

namespace k3::runtime {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
constexpr const char* kKey = "eos_token_id";

enum class Presence : std::uint8_t { kRequired, kOptional };

class StopReader {
 public:
  explicit StopReader(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  void ReadFileOf(const std::string& path, Presence presence) {
    const Result<std::string> text = ReadFile(path, kMaxBytes);
    if (!text.ok()) {
      const bool absent = text.error().code == Code::kNotFound;
      if (!absent || presence == Presence::kRequired) faults_.Add(text.error());
      return;
    }
    const nlohmann::json json = nlohmann::json::parse(text.value(), nullptr, false);
    if (!json.is_object()) return Fault(path + ": is not a JSON object");
    const auto found = json.find(kKey);
    if (found != json.end()) return ReadIds(path, *found);
    if (presence == Presence::kRequired) Fault(path + ": " + kKey + " is absent");
  }

  void Add(std::int32_t id) { ids_.insert(id); }

  Result<std::vector<std::int32_t>> Finish() const {
    if (!faults_.empty()) return faults_.ToError();
    return std::vector<std::int32_t>(ids_.begin(), ids_.end());
  }

 private:
  void Fault(const std::string& line) { faults_.Add(Code::kInvalidArgument, line); }

  void ReadIds(const std::string& path, const nlohmann::json& value) {
    if (!value.is_array()) return ReadId(path, value);
    if (value.empty()) Fault(path + ": " + kKey + " is an empty list");
    for (const nlohmann::json& element : value) ReadId(path, element);
  }

  void ReadId(const std::string& path, const nlohmann::json& value) {
    const bool fits = value.is_number_integer() && value >= 0 && value < vocabulary_.size();
    if (fits) return Add(value.get<std::int32_t>());
    Fault(path + ": " + kKey + " is or holds " + value.dump() + ", expected a token id in 0.." +
          std::to_string(vocabulary_.size() - 1));
  }

  const Vocabulary& vocabulary_;
  FaultList faults_;
  std::set<std::int32_t> ids_;
};

}  // namespace

Result<std::vector<std::int32_t>> LoadStopIds(const std::string& checkpoint_dir,
                                              const Vocabulary& vocabulary) {
  const std::filesystem::path folder(checkpoint_dir);
  StopReader reader(vocabulary);
  reader.ReadFileOf((folder / "config.json").string(), Presence::kRequired);
  reader.ReadFileOf((folder / "generation_config.json").string(), Presence::kOptional);
  if (const auto eos = vocabulary.eos_id()) reader.Add(*eos);
  return reader.Finish();
}

}  // namespace k3::runtime
