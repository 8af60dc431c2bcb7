// Settings by name, from four sources: command line, environment, a YAML file, defaults.
//   1. Precedence, per name: command line > environment > file > default. A list given by one
//      source replaces the list of another.
//   2. What every source says is read and checked, also where another outranks it; all faults are
//      kept, each with the place it stands at. A name nobody knows is a fault.
//   3. A name and its long aliases work in every source: --max-num-seqs, K3SERVE_MAX_NUM_SEQS, and
//      max-num-seqs or max_num_seqs in the file.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace k3::server {

enum class Origin : std::uint8_t { kDefault, kFile, kEnvironment, kCommandLine };
const char* NameOf(Origin origin);

// What is in force, for logs and GetServerInfo. A list is joined with commas.
struct Setting {
  std::string name;
  std::string value;
  std::string origin;  // NameOf(Origin)
  bool operator==(const Setting&) const = default;
};

enum class SettingKind : std::uint8_t {
  kValue,
  kList,    // repeated on the command line, a sequence in the file, commas elsewhere
  kSwitch,  // --name, --no-name; elsewhere true or false
  kFile,    // names the file of settings: not a setting of the file itself, nor listed
};

// Puts a value where it belongs, or leaves that alone and says what it expected.
using TakeValue = std::function<std::optional<std::string>(const std::string&)>;

struct SettingSpec {
  std::string name;
  std::vector<std::string> aliases;  // those of one letter are for the command line only
  std::string default_value;         // taken first, and never refused
  std::string help;
  TakeValue take;
  SettingKind kind = SettingKind::kValue;
};

// A value as one source has it. `where` opens the message of a fault.
struct Given {
  const SettingSpec* spec = nullptr;
  std::string value;
  Origin origin = Origin::kDefault;
  std::string where;
};

using Faults = std::vector<std::string>;

// All that may be set, in the order of --help. The Givens of a table point into it.
class SettingTable {
 public:
  // The first one is also the positional argument of the command line.
  explicit SettingTable(std::vector<SettingSpec> specs) : specs_(std::move(specs)) {}
  SettingTable(const SettingTable&) = delete;
  SettingTable& operator=(const SettingTable&) = delete;

  const std::vector<SettingSpec>& specs() const { return specs_; }
  const SettingSpec* Find(std::string_view name) const;  // null: no such setting
  // The name or alias somebody probably meant; empty when none is near.
  std::string Nearest(std::string_view name) const;
  // Takes the defaults, then all of `given` in order of precedence.
  std::vector<Setting> Merge(std::vector<Given> given, Faults& faults) const;

 private:
  std::vector<SettingSpec> specs_;
};

// The variables K3SERVE_*; `environment` as environ(7) has it. Those by which Kubernetes describes
// a Service called k3serve to every pod beside it (K3SERVE_PORT=tcp://...) are nobody's settings.
std::vector<Given> FromEnvironment(const SettingTable& table, const char* const* environment,
                                   Faults& faults);

}  // namespace k3::server
