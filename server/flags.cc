#include "server/flags.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <unistd.h>
#include <utility>

#include "server/exit_codes.h"
#include "server/settings_cli.h"
#include "server/settings_file.h"
#include "server/settings_values.h"
#include "server/version.h"

namespace k3::server {
namespace {

constexpr int kMaxPort = 65535;
constexpr int kMany = std::numeric_limits<int>::max();
constexpr std::int64_t kManyBytes = std::numeric_limits<std::int64_t>::max();
constexpr int kDaySeconds = 24 * 3600;

using Specs = std::vector<SettingSpec>;

// One that is no port clashes with no other: zero stands for it.
TakeValue Port(int& target) {
  return [&target, take = Whole(0, kMaxPort, target)](const std::string& text) {
    target = 0;
    return take(text);
  };
}

std::optional<std::string> TakeMetricsCompat(const std::string& text, bool& vllm) {
  std::vector<std::string> names;
  const bool malformed = List(names)(text).has_value();
  const bool none = std::find(names.begin(), names.end(), "none") != names.end();
  const bool known = std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return name == "none" || name == "vllm";
  });
  if (malformed || names.empty() || !known || (none && names.size() > 1)) {
    return "none, or vllm";
  }
  vllm = !none;
  return std::nullopt;
}

Specs ModelSettings(Flags& flags) {
  return {
      {"model", {"m", "model-path"}, "", "folder of the checkpoint", Text(flags.model)},
      {"served-model-name",
       {"alias"},
       "",
       "name clients may use; repeat for more (default: the folder's name)",
       List(flags.names),
       SettingKind::kList},
  };
}

Specs ListenSettings(Flags& flags) {
  return {
      {"host", {}, "127.0.0.1", "address to listen on", Address(flags.host)},
      {"http-port", {"port"}, "8000", "HTTP port; 0: any free one", Port(flags.http_port)},
      {"grpc-port", {}, "50051", "gRPC port; 0: any free one", Port(flags.grpc_port)},
      {"grpc-max-message-bytes",
       {},
       "64M",
       "largest request taken",
       Bytes(kMany,
             [&](std::int64_t bytes) { flags.grpc_max_message_bytes = static_cast<int>(bytes); })},
  };
}

Specs DeviceSettings(Flags& flags) {
  runtime::EngineOptions& engine = flags.engine;
  return {
      {"device",
       {},
       engine.device,
       "ref, cpu or cuda",
       OneOf({"ref", "cpu", "cuda"}, [&](const std::string& name) { engine.device = name; })},
      {"threads",
       {},
       std::to_string(engine.threads),
       "compute threads; 0: one per usable core",
       Whole(0, 4096, engine.threads)},
      {"isa", {}, "", "instruction set of the CPU kernels (default: the best)", Text(engine.isa)},
      {"cache-bytes",
       {"kv-cache-memory-bytes"},
       "0",
       "size of the page pool, K, M or G allowed; 0: from the free memory",
       Bytes(kManyBytes, [&](std::int64_t bytes) { engine.cache_bytes = bytes; })},
      {"kv-cache-dtype",
       {},
       "bf16",
       "bf16 or fp32",
       OneOf({"bf16", "fp32"},
             [&](const std::string& name) {
               engine.latent_dtype = name == "fp32" ? DType::kF32 : DType::kBf16;
             })},
      {"warmup",
       {},
       "false",
       "read all weights before saying ready",
       Switch(flags.warmup),
       SettingKind::kSwitch},
  };
}

Specs LoadSettings(runtime::EngineOptions& engine) {
  return {
      {"max-model-len",
       {"context-length", "c"},
       std::to_string(engine.max_model_len),
       "prompt and output together; 0: what model and pool allow",
       Whole(0, kMany, engine.max_model_len)},
      {"max-num-seqs",
       {},
       std::to_string(engine.max_num_seqs),
       "requests running at once",
       Whole(1, 1 << 16, engine.max_num_seqs)},
      {"max-num-batched-tokens",
       {},
       std::to_string(engine.max_num_batched_tokens),
       "rows of a step",
       Whole(1, 1 << 20, engine.max_num_batched_tokens)},
      {"max-queued-requests",
       {},
       std::to_string(engine.max_queued_requests),
       "requests waiting beyond the running ones",
       Whole(0, kMany, engine.max_queued_requests)},
      {"max-queued-tokens",
       {},
       std::to_string(engine.max_queued_tokens),
       "prompt tokens of waiting requests",
       Whole(0, kManyBytes, engine.max_queued_tokens)},
      {"target-inter-token-latency-ms",
       {},
       std::to_string(engine.target_inter_token_ms),
       "prefill steps shrink to keep it while others decode; 0: they do not",
       Whole(0, kMany, engine.target_inter_token_ms)},
      {"long-prefill-token-threshold",
       {},
       std::to_string(engine.long_prefill_tokens),
       "prompts with more to compute yield to shorter ones",
       Whole(1, kMany, engine.long_prefill_tokens)},
  };
}

Specs ClientSettings(Flags& flags) {
  runtime::EngineOptions& engine = flags.engine;
  return {
      {"max-unread-tokens",
       {},
       std::to_string(engine.max_unread_tokens),
       "a request whose client is this far behind pauses",
       Whole(1, kMany, engine.max_unread_tokens)},
      {"slow-client-timeout",
       {},
       std::to_string(engine.slow_client_timeout_ms / 1000),
       "seconds until a paused request ends",
       Whole(1, kDaySeconds,
             [&](std::int64_t seconds) {
               engine.slow_client_timeout_ms = static_cast<int>(seconds) * 1000;
             })},
      {"drain-timeout",
       {},
       "30",
       "seconds running requests get after SIGTERM",
       Whole(0, kDaySeconds,
             [&](std::int64_t seconds) { flags.drain_timeout = std::chrono::seconds(seconds); })},
  };
}

Specs WatchSettings(Flags& flags) {
  return {
      {"log-level",
       {},
       "info",
       "debug, info, warn or error",
       OneOf({"debug", "info", "warn", "error"},
             [&](const std::string& level) { flags.log_level = level; })},
      {"log-format",
       {},
       "text",
       "text or json",
       OneOf({"text", "json"}, [&](const std::string& format) { flags.log_format = format; })},
      {"log-requests",
       {},
       "meta",
       "none, or meta: two lines per request, without its words",
       OneOf({"none", "meta"},
             [&](const std::string& what) { flags.log_requests = what == "meta"; })},
      {"metrics-compat",
       {},
       "none",
       "none, or vllm: metrics under the names of vLLM too",
       [&](const std::string& text) { return TakeMetricsCompat(text, flags.metrics_compat_vllm); },
       SettingKind::kList},
  };
}

// Its value is read before any other is taken.
SettingSpec ConfigSetting() {
  const auto take = [](const std::string&) -> std::optional<std::string> { return std::nullopt; };
  return {"config", {}, "", "YAML file of settings", take, SettingKind::kFile};
}

// Everything that may be set. `flags` outlives the table.
Specs AllSettings(Flags& flags) {
  Specs all = ModelSettings(flags);
  const auto append = [&all](Specs more) {
    std::move(more.begin(), more.end(), std::back_inserter(all));
  };
  all.push_back(ConfigSetting());
  append(ListenSettings(flags));
  append(DeviceSettings(flags));
  append(LoadSettings(flags.engine));
  append(ClientSettings(flags));
  append(WatchSettings(flags));
  return all;
}

// The folder's own name, also for "models/nano/" and ".".
std::string FolderName(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::absolute(path, ignored).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return folder.filename().string();
}

// What no setting can see alone.
void Complete(Flags& flags, Faults& faults) {
  if (flags.model.empty()) faults.emplace_back("no model: name the folder of a checkpoint");
  if (flags.names.empty()) flags.names = {FolderName(flags.model)};
  if (flags.http_port != 0 && flags.http_port == flags.grpc_port) {
    faults.push_back(fmt::format("--http-port and --grpc-port are both {}", flags.http_port));
  }
  for (Setting& setting : flags.settings) {
    if (setting.name == "served-model-name") {
      setting.value = fmt::format("{}", fmt::join(flags.names, ","));
    }
  }
}

// The file that the last of these names, read; they come in order of precedence.
std::vector<Given> FromNamedFile(const SettingTable& table, const std::vector<Given>& given,
                                 Faults& faults) {
  const Given* file = nullptr;
  for (const Given& one : given) {
    if (one.spec->kind == SettingKind::kFile) file = &one;
  }
  if (file == nullptr) return {};
  return FromFile(table, file->value, file->where, faults);
}

}  // namespace

std::variant<Flags, EarlyExit> ParseFlags(int argc, const char* const* argv,
                                          const char* const* environment) {
  Flags flags;
  const SettingTable table(AllSettings(flags));
  Faults faults;
  const CommandLine line = FromCommandLine(table, argc, argv, faults);
  if (!line.help.empty()) return EarlyExit{kExitClean, line.help};
  if (line.version) return EarlyExit{kExitClean, fmt::format("k3serve {}\n", kVersion)};
  std::vector<Given> given = FromEnvironment(table, environment, faults);
  given.insert(given.end(), line.given.begin(), line.given.end());
  const std::vector<Given> from_file = FromNamedFile(table, given, faults);
  given.insert(given.end(), from_file.begin(), from_file.end());
  flags.settings = table.Merge(std::move(given), faults);
  Complete(flags, faults);
  if (!faults.empty()) {
    return EarlyExit{kExitUsage, fmt::format("k3serve: {} fault(s) in the settings (see --help):\n"
                                             "  {}\n",
                                             faults.size(), fmt::join(faults, "\n  "))};
  }
  if (line.print_config) return EarlyExit{kExitClean, ToYaml(flags.settings)};
  return flags;
}

std::variant<Flags, EarlyExit> ParseFlags(int argc, const char* const* argv) {
  return ParseFlags(argc, argv, environ);
}

}  // namespace k3::server
