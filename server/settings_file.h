// The file of settings: one YAML map, whose keys are the flags' names without dashes.
#pragma once
#include <string>
#include <vector>

#include "server/settings.h"

namespace k3::server {

// `where` opens the message of a fault of the file itself: who named it.
std::vector<Given> FromFile(const SettingTable& table, const std::string& path,
                            const std::string& where, Faults& faults);

// What FromFile takes, with each setting's origin as a comment.
std::string ToYaml(const std::vector<Setting>& settings);

}  // namespace k3::server
