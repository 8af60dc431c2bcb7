#include "server/settings.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <numeric>

#include "kernels/base/check.h"

namespace k3::server {
namespace {

constexpr std::string_view kPrefix = "K3SERVE_";

// Insertions, deletions and replacements that make one of the other.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string Mapped(std::string_view text, char from, char to, int (*letter)(int)) {
  std::string mapped(text);
  for (char& c : mapped) {
    c = c == from ? to : static_cast<char>(letter(static_cast<unsigned char>(c)));
  }
  return mapped;
}

std::string VariableOf(std::string_view name) {
  return std::string(kPrefix) + Mapped(name, '-', '_', std::toupper);
}

// `variable` is what follows the prefix, from its underscore on: _PORT, _SERVICE_HOST,
// _PORT_8000_TCP_ADDR; _METRICS_PORT when the Service is called k3serve-metrics.
bool IsServiceLink(std::string_view variable, std::string_view value) {
  if (variable.find("_SERVICE_HOST") != std::string_view::npos) return true;
  if (variable.find("_SERVICE_PORT") != std::string_view::npos) return true;
  const std::size_t port = variable.find("_PORT_");
  if (port != std::string_view::npos && port + 6 < variable.size() &&
      std::isdigit(static_cast<unsigned char>(variable[port + 6])) != 0) {
    return true;
  }
  const bool address =
      value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
  return address && variable.ends_with("_PORT");
}

// Two names of one setting in one source: neither can be meant to win. On the command line the
// last one wins, so that a flag can be added to a script's.
void RefuseTwice(const std::vector<Given>& given, Faults& faults) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].origin == Origin::kCommandLine) continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (given[j].spec != given[i].spec || given[j].origin != given[i].origin) continue;
      faults.push_back(fmt::format("{}: set by {} too", given[i].where, given[j].where));
      break;
    }
  }
}

}  // namespace

const char* NameOf(Origin origin) {
  switch (origin) {
    case Origin::kDefault:
      return "default";
    case Origin::kFile:
      return "file";
    case Origin::kEnvironment:
      return "environment";
    case Origin::kCommandLine:
      break;
  }
  return "command line";
}

const SettingSpec* SettingTable::Find(std::string_view name) const {
  if (name.size() < 2) return nullptr;
  const auto found = std::find_if(specs_.begin(), specs_.end(), [&](const SettingSpec& spec) {
    return spec.name == name ||
           std::find(spec.aliases.begin(), spec.aliases.end(), name) != spec.aliases.end();
  });
  return found == specs_.end() ? nullptr : &*found;
}

std::string SettingTable::Nearest(std::string_view name) const {
  std::string nearest;
  std::size_t least = 3 + name.size() / 6;  // as far away is another word, not a slip
  const auto look = [&](const std::string& candidate) {
    const std::size_t distance = EditDistance(name, candidate);
    if (candidate.size() < 2 || distance >= least) return;
    least = distance;
    nearest = candidate;
  };
  for (const SettingSpec& spec : specs_) {
    look(spec.name);
    for (const std::string& alias : spec.aliases) look(alias);
  }
  return nearest;
}

std::vector<Setting> SettingTable::Merge(std::vector<Given> given, Faults& faults) const {
  std::vector<Setting> settings;
  for (const SettingSpec& spec : specs_) {
    K3_CHECK(!spec.take(spec.default_value));
    settings.push_back({spec.name, spec.default_value, NameOf(Origin::kDefault)});
  }
  RefuseTwice(given, faults);
  std::stable_sort(given.begin(), given.end(),
                   [](const Given& a, const Given& b) { return a.origin < b.origin; });
  for (const Given& one : given) {
    if (const auto expected = one.spec->take(one.value)) {
      faults.push_back(fmt::format("{}: '{}'; expected {}", one.where, one.value, *expected));
      continue;
    }
    const auto index = static_cast<std::size_t>(one.spec - specs_.data());
    settings[index] = {one.spec->name, one.value, NameOf(one.origin)};
  }
  std::erase_if(settings, [this](const Setting& setting) {
    return Find(setting.name)->kind == SettingKind::kFile;
  });
  return settings;
}

std::vector<Given> FromEnvironment(const SettingTable& table, const char* const* environment,
                                   Faults& faults) {
  std::vector<std::string> ours;
  for (; *environment != nullptr; ++environment) {
    if (std::string_view(*environment).starts_with(kPrefix)) ours.emplace_back(*environment);
  }
  std::sort(ours.begin(), ours.end());  // the order of an environment is an accident
  std::vector<Given> given;
  for (const std::string& entry : ours) {
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string variable = entry.substr(0, equals);
    const std::string value = entry.substr(std::min(equals + 1, entry.size()));
    if (IsServiceLink(std::string_view(variable).substr(kPrefix.size() - 1), value)) continue;
    const std::string where = "environment " + variable;
    const std::string name =
        Mapped(std::string_view(variable).substr(kPrefix.size()), '_', '-', std::tolower);
    const SettingSpec* spec = table.Find(name);
    if (spec != nullptr && VariableOf(name) == variable) {
      given.push_back({spec, value, Origin::kEnvironment, where});
      continue;
    }
    const std::string meant = table.Nearest(name);
    faults.push_back(where + ": no such setting" +
                     (meant.empty() ? "" : "; did you mean " + VariableOf(meant) + "?"));
  }
  return given;
}

}  // namespace k3::server
