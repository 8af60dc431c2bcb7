#include "server/request_log.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <utility>

namespace k3::server {
namespace {

constexpr double kMsPerSecond = 1000;

using Fields = nlohmann::ordered_json;

// A string as it is where it can be taken for nothing else: a client's request id may hold
// anything.
std::string AsText(const Fields& value) {
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isgraph(c) != 0 && c != '"' && c != '=';
  });
  return plain ? text : value.dump(-1, ' ', true, Fields::error_handler_t::replace);
}

void Write(RequestLog::Mode mode, const char* event, const Fields& fields) {
  if (mode == RequestLog::Mode::kOff) return;
  if (mode == RequestLog::Mode::kJson) {
    Fields line{{"event", event}};
    line.update(fields);
    spdlog::info("{}", line.dump(-1, ' ', false, Fields::error_handler_t::replace));
    return;
  }
  std::string line = event;
  for (const auto& [name, value] : fields.items()) {
    line += fmt::format(" {}={}", name, AsText(value));
  }
  spdlog::info("{}", line);
}

double Ms(double seconds) {
  return std::round(seconds * kMsPerSecond * 1000) / 1000;
}

// One object per line: time, level, and the message or the fields it consists of.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& msg, spdlog::memory_buf_t& out) override {
    const auto since = std::chrono::duration<double>(msg.time.time_since_epoch()).count();
    const std::string_view level = spdlog::level::to_string_view(msg.level).data();
    Fields line{{"ts", std::round(since * 1e6) / 1e6}, {"level", level}};
    const std::string text(msg.payload.data(), msg.payload.size());
    const Fields inner =
        text.starts_with('{') ? Fields::parse(text, nullptr, false) : Fields("not an object");
    if (inner.is_object()) {
      line.update(inner);
    } else {
      line["msg"] = text;
    }
    const std::string bytes = line.dump(-1, ' ', false, Fields::error_handler_t::replace) + "\n";
    out.append(bytes.data(), bytes.data() + bytes.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

}  // namespace

void RequestLog::Admitted(const std::string& id, const char* api,
                          const server::Admitted& admitted) const {
  const runtime::Request& request = admitted.request;
  Write(mode_, "request admitted",
        {{"id", id},
         {"api", api},
         {"tenant", request.tenant},
         {"prompt_tokens", request.prompt.size()},
         {"max_new_tokens", request.max_new_tokens.value_or(0)},
         {"n", admitted.n},
         {"priority", request.priority},
         {"temperature", request.sampling.temperature},
         {"seed", request.sampling.seed}});
}

void RequestLog::Refused(const std::string& id, const char* api, const ApiError& error) const {
  Write(mode_, "request refused", {{"id", id}, {"api", api}, {"reason", error.reason}});
}

void RequestLog::Ended(const std::string& id, const char* api, const End& end) const {
  Write(mode_, "request ended",
        {{"id", id},
         {"api", api},
         {"status", end.status},
         {"finish", end.finish},
         {"completion_tokens", end.completion_tokens},
         {"cached_tokens", end.cached_tokens},
         {"queue_ms", Ms(end.timings.queue)},
         {"ttft_ms", Ms(end.timings.ttft)},
         {"e2e_ms", Ms(end.total_seconds)},
         {"preemptions", end.timings.preemptions}});
}

void SetUpLogging(const std::string& level, bool json) {
  auto logger = spdlog::stderr_color_mt("k3serve");
  if (json) logger->set_formatter(std::make_unique<JsonFormatter>());
  spdlog::set_default_logger(std::move(logger));
  spdlog::set_level(spdlog::level::from_str(level));
}

}  // namespace k3::server
