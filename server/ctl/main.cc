// k3ctl: the command-line client of k3serve.
#include <CLI/CLI.hpp>

#include "server/ctl/client.h"
#include "server/exit_codes.h"

namespace {

namespace ctl = k3::server::ctl;

struct Commands {
  ctl::GenerateCommand generate;
  std::string server = "127.0.0.1:50051";
  std::string service;
  std::string text;
  std::vector<std::uint32_t> ids;
  CLI::App* chosen_generate = nullptr;
  CLI::App* chosen_health = nullptr;
  CLI::App* chosen_info = nullptr;
  CLI::App* chosen_tokenize = nullptr;
};

CLI::App* AddVerb(CLI::App& app, Commands& commands, const char* name, const char* help) {
  CLI::App* verb = app.add_subcommand(name, help);
  verb->add_option("--server,-s", commands.server, "address of the gRPC port")
      ->capture_default_str();
  return verb;
}

void DeclareGenerate(CLI::App& app, Commands& commands) {
  ctl::GenerateCommand& generate = commands.generate;
  CLI::App* verb = AddVerb(app, commands, "generate", "stream what follows a text");
  auto* text = verb->add_option("text,--text", generate.text, "the prompt");
  verb->add_option("--prompt-ids", generate.prompt_ids, "token ids instead of a text")
      ->delimiter(',')
      ->excludes(text);
  verb->add_option("--temperature", generate.temperature, "0: greedy");
  verb->add_option("--top-p", generate.top_p, "more than 0, at most 1");
  verb->add_option("--seed", generate.seed, "the same seed gives the same tokens");
  verb->add_option("--max-tokens", generate.max_tokens, "how many to generate at most");
  verb->add_flag("--ignore-eos", generate.ignore_eos, "go on after the end of a message");
  verb->add_flag("--ids", generate.show_ids, "show token ids, not text");
  commands.chosen_generate = verb;
}

void Declare(CLI::App& app, Commands& commands) {
  app.require_subcommand(1);
  DeclareGenerate(app, commands);
  commands.chosen_health = AddVerb(app, commands, "health", "SERVING or not, also as exit code");
  commands.chosen_health->add_option("service", commands.service, "a service's name; none: all");
  commands.chosen_info = AddVerb(app, commands, "info", "the model and how it is run");
  commands.chosen_tokenize = AddVerb(app, commands, "tokenize", "a text's token ids");
  commands.chosen_tokenize->add_option("text", commands.text)->required();
  AddVerb(app, commands, "detokenize", "the text of token ids")
      ->add_option("ids", commands.ids)
      ->required();
}

}  // namespace

int main(int argc, char** argv) {
  Commands commands;
  CLI::App app("Talks to a running k3serve.", "k3ctl");
  Declare(app, commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? k3::server::kExitClean : k3::server::kExitUsage;
  }
  if (*commands.chosen_generate) {
    commands.generate.server = commands.server;
    return ctl::Generate(commands.generate);
  }
  if (*commands.chosen_health) return ctl::Health(commands.server, commands.service);
  if (*commands.chosen_info) return ctl::Info(commands.server);
  if (*commands.chosen_tokenize) return ctl::Tokenize(commands.server, commands.text);
  return ctl::Detokenize(commands.server, commands.ids);
}
