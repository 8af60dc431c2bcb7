#include "server/settings_cli.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace k3::server {
namespace {

constexpr const char* kFooter =
    "\nEvery flag is also a variable (--max-num-seqs: K3SERVE_MAX_NUM_SEQS) and a key of the file "
    "of\n--config (max-num-seqs: 16). Precedence: command line, environment, file, default.";

std::string Dashed(const std::string& name) {
  return (name.size() == 1 ? "-" : "--") + name;
}

CLI::Option* Declare(CLI::App& app, const SettingSpec& spec, bool positional) {
  std::string names = (positional ? spec.name + "," : "") + Dashed(spec.name);
  for (const std::string& alias : spec.aliases) names += "," + Dashed(alias);
  if (spec.kind == SettingKind::kSwitch) {
    return app.add_flag(names + ",!--no-" + spec.name, spec.help)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  CLI::Option* option = app.add_option(names, spec.help)->default_str(spec.default_value);
  return option->type_name("TEXT")->multi_option_policy(spec.kind == SettingKind::kList
                                                            ? CLI::MultiOptionPolicy::TakeAll
                                                            : CLI::MultiOptionPolicy::TakeLast);
}

std::string UnknownFlag(const SettingTable& table, const std::string& argument) {
  const std::size_t begin = argument.find_first_not_of('-');
  std::string meant;
  if (begin != 0 && begin != std::string::npos) {
    meant = table.Nearest(argument.substr(begin, argument.find('=') - begin));
  }
  return fmt::format("'{}': no such flag{}", argument,
                     meant.empty() ? "" : "; did you mean " + Dashed(meant) + "?");
}

}  // namespace

CommandLine FromCommandLine(const SettingTable& table, int argc, const char* const* argv,
                            Faults& faults) {
  CommandLine line;
  CLI::App app("Serves one Kimi K3 checkpoint over gRPC and HTTP.", "k3serve");
  app.footer(kFooter);
  std::vector<CLI::Option*> options;
  for (const SettingSpec& spec : table.specs()) {
    options.push_back(Declare(app, spec, options.empty()));
  }
  app.add_flag("--print-config", line.print_config, "print all settings as a file for --config");
  app.add_flag("--version", line.version, "print the version and leave");
  app.allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.help = app.help();
    return line;
  } catch (const CLI::ParseError& error) {
    faults.emplace_back(error.what());  // a last flag without its value; the others were read
  }
  for (const std::string& extra : app.remaining()) faults.push_back(UnknownFlag(table, extra));
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i]->count() == 0) continue;
    const SettingSpec& spec = table.specs()[i];
    const std::vector<std::string> results = options[i]->results();
    const bool list = spec.kind == SettingKind::kList;
    line.given.push_back({&spec, list ? fmt::format("{}", fmt::join(results, ",")) : results.back(),
                          Origin::kCommandLine, Dashed(spec.name)});
  }
  return line;
}

}  // namespace k3::server
