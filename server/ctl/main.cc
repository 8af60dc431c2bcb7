// k3ctl: the command-line client of k3serve.
#include <CLI/CLI.hpp>

#include "server/ctl/bench.h"
#include "server/ctl/client.h"
#include "server/ctl/generate.h"
#include "server/ctl/top.h"
#include "server/exit_codes.h"

namespace {

namespace ctl = k3::server::ctl;

struct Commands {
  std::string server = "127.0.0.1:50051";
  ctl::GenerateCommand generate;
  ctl::BenchCommand bench;
  ctl::TopCommand top;
  ctl::AbortCommand abort;
  std::string service;
  std::string text;
  std::vector<std::uint32_t> ids;
  std::optional<std::uint32_t> drain_seconds;
  bool json = false;
  std::function<int()> chosen;
};

constexpr const char* kBenchFooter =
    "How it is measured, on this side of the wire:\n"
    "  TTFT  from sending a request to its first delta with tokens\n"
    "  E2EL  from sending a request to its last delta with tokens\n"
    "  TPOT  (E2EL - TTFT) / (tokens - 1); answers of one token are left out\n"
    "  ITL   gaps between deltas with tokens. A delta of k tokens is one arrival and ends one "
    "gap:\n"
    "        where the server merges events, ITL is longer than TPOT.\n"
    "Waiting for a place under --concurrency or --max-concurrency is in none of them.\n"
    "--result-file has the field names of `vllm bench serve --save-result`.";

// Runs `run` when the verb is chosen.
CLI::App* AddVerb(CLI::App& app, Commands& commands, const char* name, const char* help,
                  std::function<int()> run) {
  CLI::App* verb = app.add_subcommand(name, help);
  verb->add_option("--server,-s", commands.server, "address of the gRPC port")
      ->capture_default_str();
  verb->callback([&commands, run = std::move(run)] { commands.chosen = run; });
  return verb;
}

// One value for each time the option is given, so that a text may stand behind it.
template <typename T>
CLI::Option* AddRepeated(CLI::App& verb, const char* name, std::vector<T>& values,
                         const char* help) {
  return verb.add_option(name, values, help)->allow_extra_args(false);
}

void DeclareSampling(CLI::App& verb, ctl::GenerateCommand& generate) {
  verb.add_option("--temperature", generate.temperature, "0: greedy");
  verb.add_option("--top-p", generate.top_p, "more than 0, at most 1");
  verb.add_option("--top-k", generate.top_k, "at least 1, or 0: all");
  verb.add_option("--min-p", generate.min_p, "0 to 1, of the likeliest token's probability");
  verb.add_option("--presence-penalty", generate.presence_penalty, "-2 to 2");
  verb.add_option("--frequency-penalty", generate.frequency_penalty, "-2 to 2");
  verb.add_option("--repetition-penalty", generate.repetition_penalty, "more than 0; 1: none");
  verb.add_option("--seed", generate.seed, "the same seed gives the same tokens");
  verb.add_option("--n", generate.n, "how many choices");
  AddRepeated(verb, "--logit-bias", generate.logit_bias, "ID=VALUE, -100 to 100; repeatable");
  AddRepeated(verb, "--allowed-token-ids", generate.allowed_token_ids, "nothing else is chosen")
      ->delimiter(',');
}

void DeclareStop(CLI::App& verb, ctl::GenerateCommand& generate) {
  verb.add_option("--max-tokens", generate.max_tokens, "how many to generate at most");
  verb.add_option("--min-tokens", generate.min_tokens, "nothing ends the output before them");
  AddRepeated(verb, "--stop", generate.stop_strings, "a text that ends the output; repeatable");
  AddRepeated(verb, "--stop-token-ids", generate.stop_token_ids, "ids that end the output")
      ->delimiter(',');
  verb.add_flag("--ignore-eos", generate.ignore_eos, "go on after the end of a message");
  verb.add_flag("--include-stop", generate.include_stop, "the stop text is part of the output");
}

void DeclareGenerate(CLI::App& app, Commands& commands) {
  ctl::GenerateCommand& generate = commands.generate;
  CLI::App* verb = AddVerb(app, commands, "generate", "stream what follows a text", [&commands] {
    commands.generate.server = commands.server;
    return ctl::Generate(commands.generate);
  });
  verb->add_option("text,--text", generate.text, "the prompt");
  AddRepeated(*verb, "--prompt-ids", generate.prompt_ids, "token ids instead of a text")
      ->delimiter(',');
  verb->add_option("--request-id", generate.request_id, "for logs and `k3ctl abort`");
  DeclareSampling(*verb, generate);
  DeclareStop(*verb, generate);
  verb->add_option("--logprobs", generate.logprobs, "show each token's, and of the N likeliest");
  verb->add_option("--priority", generate.priority, "the lower the sooner; 0 unless told");
  verb->add_option("--queue-timeout-ms", generate.queue_timeout_ms, "give up when not started");
  verb->add_option("--timeout", generate.timeout_seconds, "seconds for the whole call");
  verb->add_flag("--no-stream", generate.unary, "one answer at the end (Complete)");
  verb->add_flag("--ids", generate.show_ids, "show token ids, not text");
  verb->add_flag("--json", generate.json, "one event a line, as JSON");
}

void DeclareLoad(CLI::App& verb, ctl::BenchCommand& bench) {
  verb.add_option("--concurrency", bench.concurrency, "closed loop: calls in flight");
  verb.add_option("--request-rate", bench.request_rate,
                  "open loop: requests a second; inf, the default: all at once");
  verb.add_option("--burstiness", bench.burstiness,
                  "1: Poisson; below: burstier; above: more even (gamma distribution)")
      ->capture_default_str();
  verb.add_option("--max-concurrency", bench.max_concurrency, "open loop: no more in flight");
  verb.add_option("--num-prompts", bench.num_prompts)->capture_default_str();
  verb.add_option("--num-warmups", bench.num_warmups, "requests before, with other prompts")
      ->capture_default_str();
  verb.add_option("--timeout", bench.timeout_seconds, "seconds for each call");
  verb.add_option("--seed", bench.seed, "of prompts, arrivals and sampling")->capture_default_str();
  verb.add_flag("--ignore-eos", bench.ignore_eos, "every answer has its full length");
  verb.add_option("--temperature", bench.temperature, "0: greedy");
}

void DeclarePrompts(CLI::App& verb, ctl::BenchCommand& bench) {
  verb.add_option("--dataset-path", bench.dataset_path,
                  "prompts, one a line: plain text or {\"prompt\": \"...\", \"output_len\": n}; "
                  "again from the top when there are too few. Without: random token ids");
  verb.add_option("--random-input-len", bench.random_input_len, "tokens after the shared prefix")
      ->capture_default_str();
  verb.add_option("--random-output-len", bench.random_output_len,
                  "tokens to generate, also for lines that do not say")
      ->capture_default_str();
  verb.add_option("--random-range-ratio", bench.random_range_ratio,
                  "r: both lengths vary from (1 - r) to (1 + r) of it")
      ->capture_default_str();
  verb.add_option("--prefix-len", bench.prefix_len, "random tokens that a group's prompts share")
      ->capture_default_str();
  verb.add_option("--num-prefixes", bench.num_prefixes, "groups, taken in turn")
      ->capture_default_str();
}

void DeclareBench(CLI::App& app, Commands& commands) {
  ctl::BenchCommand& bench = commands.bench;
  CLI::App* verb = AddVerb(app, commands, "bench", "put load on a server and measure", [&commands] {
    commands.bench.server = commands.server;
    return ctl::Bench(commands.bench);
  });
  verb->footer(kBenchFooter);
  DeclareLoad(*verb, bench);
  DeclarePrompts(*verb, bench);
  verb->add_option("--percentile-metrics", bench.percentile_metrics, "of ttft,tpot,itl,e2el")
      ->delimiter(',')
      ->capture_default_str();
  verb->add_option("--metric-percentiles", bench.metric_percentiles)
      ->delimiter(',')
      ->capture_default_str();
  verb->add_option("--goodput", bench.goodput, "ttft:MS tpot:MS e2el:MS: count who is within");
  verb->add_option("--result-file", bench.result_file, "write the result as JSON");
  verb->add_flag("--save-detailed", bench.save_detailed, "each request's numbers in it, too");
}

void DeclareTop(CLI::App& app, Commands& commands) {
  ctl::TopCommand& top = commands.top;
  const auto run = [&commands] {
    commands.top.server = commands.server;
    return ctl::Top(commands.top);
  };
  CLI::App* verb = AddVerb(app, commands, "top", "watch a server's load", run);
  verb->add_option("--interval", top.interval_seconds, "seconds")->capture_default_str();
  verb->add_option("--requests", top.requests, "how many of the oldest to list")
      ->capture_default_str();
  verb->add_flag("--once", top.once, "two looks an interval apart, as plain text");
  verb->add_flag("--json", top.json, "one snapshot a line");

  CLI::App* loads = AddVerb(app, commands, "loads", "one snapshot: top --once --json", [&top, run] {
    top.once = top.json = true;
    return run();
  });
  loads->add_option("--requests", top.requests, "how many of the oldest to list");
}

void DeclareControl(CLI::App& app, Commands& commands) {
  CLI::App* abort = AddVerb(app, commands, "abort", "end requests in flight", [&commands] {
    commands.abort.server = commands.server;
    return ctl::Abort(commands.abort);
  });
  abort->add_option("ids", commands.abort.request_ids, "request ids");
  abort->add_option("--prefix", commands.abort.prefix, "all whose id begins so");
  abort->add_flag("--all", commands.abort.all);
  abort->add_option("--reason", commands.abort.reason, "told to the callers");

  CLI::App* drain =
      AddVerb(app, commands, "drain", "take nothing new, finish, end the server",
              [&commands] { return ctl::Drain(commands.server, commands.drain_seconds); });
  drain->add_option("--timeout", commands.drain_seconds, "seconds; else its --drain-timeout");

  AddVerb(app, commands, "server-info", "state, uptime and every setting", [&commands] {
    return ctl::ServerInfo(commands.server, commands.json);
  })->add_flag("--json", commands.json);
  AddVerb(app, commands, "info", "the model and how it is run",
          [&commands] { return ctl::Info(commands.server); });
  AddVerb(app, commands, "health", "SERVING or not, also as exit code", [&commands] {
    return ctl::Health(commands.server, commands.service);
  })->add_option("service", commands.service, "a service's name; none: all");
}

void DeclareText(CLI::App& app, Commands& commands) {
  AddVerb(app, commands, "tokenize", "a text's token ids",
          [&commands] { return ctl::Tokenize(commands.server, commands.text); })
      ->add_option("text", commands.text)
      ->required();
  AddVerb(app, commands, "detokenize", "the text of token ids",
          [&commands] { return ctl::Detokenize(commands.server, commands.ids); })
      ->add_option("ids", commands.ids)
      ->required();
}

}  // namespace

int main(int argc, char** argv) {
  Commands commands;
  CLI::App app("Talks to a running k3serve.", "k3ctl");
  app.require_subcommand(1);
  DeclareGenerate(app, commands);
  DeclareBench(app, commands);
  DeclareTop(app, commands);
  DeclareControl(app, commands);
  DeclareText(app, commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? k3::server::kExitClean : k3::server::kExitUsage;
  }
  return commands.chosen();
}
