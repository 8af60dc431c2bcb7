// k3serve: listens first, loads the model meanwhile, serves until SIGTERM or SIGINT.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <optional>
#include <spdlog/spdlog.h>
#include <thread>
#include <unistd.h>

#include "runtime/weights/mapping_fault.h"
#include "server/exit_codes.h"
#include "server/flags.h"
#include "server/grpc/grpc_server.h"
#include "server/http/http_server.h"
#include "server/http/routes.h"
#include "server/load.h"

namespace k3::server {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kTextThreads = 2;
constexpr milliseconds kPoll{50};
// For the last events of streams to reach their readers, once the engine has nothing left to do.
constexpr milliseconds kFlushGrace{2000};

// SIGTERM and SIGINT, taken by waiting for them: no handler runs anywhere. Made before any thread,
// so that all threads inherit the blocked mask.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
  }
  void Wait() const {
    int number = 0;
    sigwait(&set_, &number);
  }
  bool WaitFor(milliseconds time) const {
    const timespec limit{time.count() / 1000, time.count() % 1000 * 1'000'000};
    return sigtimedwait(&set_, nullptr, &limit) > 0;
  }

 private:
  sigset_t set_{};
};

RequestLog::Mode LogMode(const Flags& flags) {
  if (!flags.log_requests) return RequestLog::Mode::kOff;
  return flags.log_format == "json" ? RequestLog::Mode::kJson : RequestLog::Mode::kText;
}

class Program {
 public:
  explicit Program(const Flags& flags)
      : flags_(flags),
        metrics_(lifecycle_, flags.names.front(), flags.metrics_compat_vllm),
        log_(LogMode(flags)),
        drain_seconds_(flags.drain_timeout.count()),
        handle_{.settings = flags.settings,
                .drain =
                    [this](std::optional<std::chrono::seconds> timeout) {
                      if (timeout) drain_seconds_.store(timeout->count());
                      kill(getpid(), SIGTERM);
                    }},
        pool_(kTextThreads) {}

  int Run(const Signals& signals);

 private:
  bool Listen();
  std::optional<int> Load(const Signals& signals);
  void Drain(const Signals& signals);

  // In the order they must outlive each other.
  const Flags& flags_;
  Lifecycle lifecycle_;
  std::unique_ptr<ServedModel> model_;
  Metrics metrics_;
  CallRegistry calls_;
  RequestLog log_;
  std::atomic<std::int64_t> drain_seconds_;  // what running requests get
  ProgramHandle handle_;
  TextPool pool_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<GrpcServer> grpc_;
};

// Both ports are tried before either is complained about, and before anything is loaded.
bool Program::Listen() {
  auto http = HttpServer::Start({flags_.host, flags_.http_port}, MakeRoutes(lifecycle_, metrics_));
  auto grpc = GrpcServer::Start({flags_.host, flags_.grpc_port, flags_.grpc_max_message_bytes},
                                {.lifecycle = lifecycle_,
                                 .metrics = metrics_,
                                 .pool = pool_,
                                 .calls = calls_,
                                 .log = log_,
                                 .program = handle_});
  if (!http.ok()) std::fprintf(stderr, "k3serve: %s\n", http.error().message.c_str());
  if (!grpc.ok()) std::fprintf(stderr, "k3serve: %s\n", grpc.error().message.c_str());
  if (!http.ok() || !grpc.ok()) return false;
  http_ = std::move(http).value();
  grpc_ = std::move(grpc).value();
  // Scripts read this line: its form is part of the interface.
  std::printf("listening grpc=%s:%d http=%s:%d\n", flags_.host.c_str(), grpc_->port(),
              flags_.host.c_str(), http_->port());
  std::fflush(stdout);
  return true;
}

// Nothing when the model is there; else the exit code.
std::optional<int> Program::Load(const Signals& signals) {
  std::optional<LoadFailure> failure;
  std::atomic<bool> done{false};
  std::thread loader([&] {
    auto loaded = LoadModel(flags_, lifecycle_);
    if (auto* failed = std::get_if<LoadFailure>(&loaded)) {
      failure = std::move(*failed);
    } else {
      model_ = std::get<std::unique_ptr<ServedModel>>(std::move(loaded));
    }
    done.store(true);
  });
  while (!done.load()) {
    if (!signals.WaitFor(kPoll)) continue;
    // A load cannot be interrupted, and has nothing to put in order: leave from under it.
    spdlog::info("stopped while loading");
    grpc_->Shutdown(milliseconds(0));
    std::fflush(nullptr);
    std::_Exit(kExitClean);
  }
  loader.join();
  if (!failure) return std::nullopt;
  lifecycle_.Fail();
  std::fprintf(stderr, "k3serve: cannot serve %s:\n%s\n", flags_.model.c_str(),
               failure->message.c_str());
  return failure->exit_code;
}

void Program::Drain(const Signals& signals) {
  const std::chrono::seconds timeout(drain_seconds_.load());
  spdlog::info("draining: no new requests; running ones have {} s", timeout.count());
  lifecycle_.Drain();
  grpc_->SetServing(false);
  const Clock::time_point deadline = Clock::now() + timeout;
  bool drained = model_->engine->Drain(milliseconds(0));
  while (!drained && Clock::now() < deadline && !signals.WaitFor(milliseconds(0))) {
    drained = model_->engine->Drain(kPoll);
  }
  if (!drained) spdlog::warn("requests still running are aborted");
  model_->engine->Stop();
  grpc_->Shutdown(kFlushGrace);
}

int Program::Run(const Signals& signals) {
  if (!Listen()) return kExitPortInUse;
  if (const std::optional<int> code = Load(signals)) return *code;
  lifecycle_.Ready(model_.get());
  grpc_->SetServing(true);
  spdlog::info("ready");
  signals.Wait();
  Drain(signals);
  spdlog::info("stopped");
  return kExitClean;
}

int Main(int argc, char** argv) {
  const auto parsed = ParseFlags(argc, argv);
  if (const auto* early = std::get_if<EarlyExit>(&parsed)) {
    std::fputs(early->text.c_str(), early->code == kExitClean ? stdout : stderr);
    return early->code;
  }
  const Flags& flags = std::get<Flags>(parsed);
  SetUpLogging(flags.log_level, flags.log_format == "json");
  for (const Setting& setting : flags.settings) {
    spdlog::info("setting {}={} ({})", setting.name, setting.value, setting.origin);
  }
  runtime::InstallMappingFaultHandler();
  const Signals signals;
  return Program(flags).Run(signals);
}

}  // namespace
}  // namespace k3::server

int main(int argc, char** argv) {
  return k3::server::Main(argc, argv);
}
