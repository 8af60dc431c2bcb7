#include "server/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <optional>

#include "server/exit_codes.h"
#include "server/version.h"

namespace k3::server {
namespace {

constexpr int kMaxPort = 65535;
constexpr int kMany = std::numeric_limits<int>::max();
constexpr int kMaxDrainSeconds = 24 * 3600;

// Everything as typed; CLI11 alone would stop at the first value it does not like.
struct Typed {
  std::string model;
  std::vector<std::string> names;
  std::string host = "127.0.0.1";
  std::string http_port = "8000";
  std::string grpc_port = "50051";
  std::string grpc_max_message_bytes = "64M";
  std::string device = "cpu";
  std::string threads = "0";
  std::string isa;
  std::string cache_bytes = "0";
  std::string max_model_len = "0";
  std::string max_num_seqs;
  std::string max_num_batched_tokens;
  std::string max_queued_requests;
  std::string kv_cache_dtype = "bf16";
  std::string drain_timeout = "30";
  std::string log_level = "info";
  bool warmup = false;
  bool version = false;
};

void Declare(CLI::App& app, Typed& typed) {
  app.option_defaults()->take_last()->always_capture_default();
  app.add_option("model,-m,--model,--model-path", typed.model, "folder of the checkpoint");
  app.add_option("--served-model-name,--alias", typed.names,
                 "name clients may use; repeat for more (default: the folder's name)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--host", typed.host, "address to listen on");
  app.add_option("--http-port,--port", typed.http_port, "HTTP port; 0: any free one");
  app.add_option("--grpc-port", typed.grpc_port, "gRPC port; 0: any free one");
  app.add_option("--grpc-max-message-bytes", typed.grpc_max_message_bytes, "largest request taken");
  app.add_option("--device", typed.device, "ref, cpu or cuda");
  app.add_option("--threads", typed.threads, "compute threads; 0: one per usable core");
  app.add_option("--isa", typed.isa, "instruction set of the CPU kernels (default: the best)");
  app.add_option("--cache-bytes", typed.cache_bytes,
                 "size of the page pool, K, M or G allowed; 0: from the free memory");
  app.add_option("--max-model-len,--context-length,-c", typed.max_model_len,
                 "prompt and output together; 0: what model and pool allow");
  app.add_option("--max-num-seqs", typed.max_num_seqs, "requests running at once");
  app.add_option("--max-num-batched-tokens", typed.max_num_batched_tokens, "rows of a step");
  app.add_option("--max-queued-requests", typed.max_queued_requests,
                 "requests waiting beyond the running ones");
  app.add_option("--kv-cache-dtype", typed.kv_cache_dtype, "bf16 or fp32");
  app.add_flag("--warmup", typed.warmup, "read all weights before saying ready");
  app.add_option("--drain-timeout", typed.drain_timeout,
                 "seconds running requests get after SIGTERM");
  app.add_option("--log-level", typed.log_level, "debug, info, warn or error");
  app.add_flag("--version", typed.version, "print the version and leave");
}

class Reader {
 public:
  // `text` as a whole number in [least, most]; empty leaves `value` as it is.
  template <typename T>
  void Number(const char* flag, const std::string& text, T least, T most, T& value) {
    if (text.empty()) return;
    const std::optional<std::int64_t> number = Whole(text);
    if (!number || *number < least || *number > most) {
      Fault(
          fmt::format("{}: '{}'; expected a whole number from {} to {}", flag, text, least, most));
      return;
    }
    value = static_cast<T>(*number);
  }

  std::int64_t Bytes(const char* flag, std::string text, std::int64_t most) {
    static const std::string kSuffixes = "KMGT";
    const std::string typed = text;
    int shift = 0;
    const std::size_t suffix = text.empty() ? std::string::npos : kSuffixes.find(text.back());
    if (suffix != std::string::npos) {
      shift = 10 * (static_cast<int>(suffix) + 1);
      text.pop_back();
    }
    const std::optional<std::int64_t> number = Whole(text);
    if (!number || *number < 0 || *number > (most >> shift)) {
      Fault(fmt::format("{}: '{}'; expected bytes, such as 512M or 8G, at most {}", flag, typed,
                        most));
      return 0;
    }
    return *number << shift;
  }

  void OneOf(const char* flag, const std::string& text, const std::vector<std::string>& choices) {
    if (std::find(choices.begin(), choices.end(), text) != choices.end()) return;
    Fault(fmt::format("{}: '{}'; expected one of {}", flag, text, fmt::join(choices, ", ")));
  }

  void Fault(std::string message) { faults_.push_back(std::move(message)); }
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  static std::optional<std::int64_t> Whole(const std::string& text) {
    std::int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end) return std::nullopt;
    return number;
  }

  std::vector<std::string> faults_;
};

void ReadEngine(const Typed& typed, Reader& read, runtime::EngineOptions& engine) {
  read.OneOf("--device", typed.device, {"ref", "cpu", "cuda"});
  read.OneOf("--kv-cache-dtype", typed.kv_cache_dtype, {"bf16", "fp32"});
  engine.device = typed.device;
  engine.isa = typed.isa;
  engine.latent_dtype = typed.kv_cache_dtype == "fp32" ? DType::kF32 : DType::kBf16;
  engine.cache_bytes =
      read.Bytes("--cache-bytes", typed.cache_bytes, std::numeric_limits<std::int64_t>::max());
  read.Number("--threads", typed.threads, 0, 4096, engine.threads);
  read.Number("--max-model-len", typed.max_model_len, 0, kMany, engine.max_model_len);
  read.Number("--max-num-seqs", typed.max_num_seqs, 1, 1 << 16, engine.max_num_seqs);
  read.Number("--max-num-batched-tokens", typed.max_num_batched_tokens, 1, 1 << 20,
              engine.max_num_batched_tokens);
  read.Number("--max-queued-requests", typed.max_queued_requests, 0, kMany,
              engine.max_queued_requests);
}

// The folder's own name, also for "models/nano/" and ".".
std::string FolderName(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::absolute(path, ignored).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return folder.filename().string();
}

Flags Read(const Typed& typed, Reader& read) {
  Flags flags;
  if (typed.model.empty()) read.Fault("no model: name the folder of a checkpoint");
  flags.model = typed.model;
  flags.names = typed.names;
  if (flags.names.empty()) flags.names = {FolderName(typed.model)};
  if (typed.host.empty()) read.Fault("--host: empty; expected an address");
  flags.host = typed.host;
  read.Number("--http-port", typed.http_port, 0, kMaxPort, flags.http_port);
  read.Number("--grpc-port", typed.grpc_port, 0, kMaxPort, flags.grpc_port);
  if (flags.http_port != 0 && flags.http_port == flags.grpc_port) {
    read.Fault(fmt::format("--http-port and --grpc-port are both {}", flags.http_port));
  }
  flags.grpc_max_message_bytes =
      static_cast<int>(read.Bytes("--grpc-max-message-bytes", typed.grpc_max_message_bytes, kMany));
  ReadEngine(typed, read, flags.engine);
  flags.warmup = typed.warmup;
  int seconds = 0;
  read.Number("--drain-timeout", typed.drain_timeout, 0, kMaxDrainSeconds, seconds);
  flags.drain_timeout = std::chrono::seconds(seconds);
  read.OneOf("--log-level", typed.log_level, {"debug", "info", "warn", "error"});
  flags.log_level = typed.log_level;
  return flags;
}

}  // namespace

std::variant<Flags, EarlyExit> ParseFlags(int argc, const char* const* argv) {
  Typed typed;
  Reader read;
  CLI::App app("Serves one Kimi K3 checkpoint over gRPC and HTTP.", "k3serve");
  Declare(app, typed);
  app.allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return EarlyExit{kExitClean, app.help()};
  } catch (const CLI::ParseError& error) {
    read.Fault(error.what());
  }
  if (typed.version) return EarlyExit{kExitClean, fmt::format("k3serve {}\n", kVersion)};
  for (const std::string& extra : app.remaining()) {
    read.Fault(fmt::format("'{}': no such flag", extra));
  }
  Flags flags = Read(typed, read);
  if (read.faults().empty()) return flags;
  return EarlyExit{kExitUsage,
                   fmt::format("k3serve: {} fault(s) in the command line (see --help):\n  {}\n",
                               read.faults().size(), fmt::join(read.faults(), "\n  "))};
}

}  // namespace k3::server
