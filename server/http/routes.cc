#include "server/http/routes.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "server/engine_collector.h"
#include "server/version.h"

namespace k3::server {
namespace {

using nlohmann::ordered_json;

// One step may read hundreds of GB from a cold disk; only far beyond that is it a hang.
constexpr double kHungAfterSeconds = 600;

HttpResponse Json(int status, const ordered_json& body) {
  // A path may hold anything; what is not UTF-8 must not become an exception.
  return {status,
          "application/json",
          body.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n",
          {}};
}

HttpResponse ErrorJson(int status, const std::string& message, const char* type) {
  return Json(
      status,
      {{"error", {{"message", message}, {"type", type}, {"param", nullptr}, {"code", nullptr}}}});
}

HttpResponse Live(const Lifecycle& lifecycle) {
  double age = 0;
  if (const ServedModel* model = lifecycle.model()) {
    const runtime::EngineCounters& counters = model->engine->counters();
    // An idle engine sleeps, so an old heartbeat means something only while it has work.
    if (counters.requests_running.value() > 0) age = HeartbeatAgeSeconds(counters);
  }
  const bool hung = age > kHungAfterSeconds;
  return Json(hung ? 503 : 200,
              {{"status", hung ? "engine hangs" : "alive"}, {"engine_heartbeat_age_seconds", age}});
}

HttpResponse Ready(const Lifecycle& lifecycle) {
  const Phase phase = lifecycle.phase();
  if (phase == Phase::kReady) return Json(200, {{"status", "ready"}, {"phase", NameOf(phase)}});
  const auto refusal = lifecycle.Refusal();
  ordered_json body = {{"error",
                        {{"code", 503},
                         {"message", refusal ? refusal->message : "becoming ready"},
                         {"type", "unavailable_error"}}},
                       {"phase", NameOf(phase)},
                       {"stage", NameOf(lifecycle.stage())},
                       {"progress", lifecycle.progress()}};
  HttpResponse response = Json(503, body);
  response.headers.emplace_back("Retry-After", "2");
  return response;
}

constexpr std::array<std::string_view, 5> kRoutes = {"/livez", "/readyz", "/health", "/metrics",
                                                     "/version"};

bool IsRoute(std::string_view path) {
  return std::find(kRoutes.begin(), kRoutes.end(), path) != kRoutes.end();
}

HttpResponse Route(const Lifecycle& lifecycle, const Metrics& metrics, const HttpRequest& request) {
  const std::string& path = request.path;
  if (!IsRoute(path)) return ErrorJson(404, "no such path: " + path, "invalid_request_error");
  if (request.method != "GET" && request.method != "HEAD") {
    HttpResponse response =
        ErrorJson(405, path + " answers GET and HEAD only", "invalid_request_error");
    response.headers.emplace_back("Allow", "GET, HEAD");
    return response;
  }
  if (path == "/livez") return Live(lifecycle);
  if (path == "/metrics") {
    return {200, "text/plain; version=0.0.4; charset=utf-8", metrics.Text(), {}};
  }
  if (path == "/version") return Json(200, {{"name", "k3serve"}, {"version", kVersion}});
  return Ready(lifecycle);
}

}  // namespace

HttpHandler MakeRoutes(const Lifecycle& lifecycle, Metrics& metrics) {
  return [&lifecycle, &metrics](const HttpRequest& request) {
    HttpResponse response = Route(lifecycle, metrics, request);
    const bool known = request.method == "GET" || request.method == "HEAD";
    metrics.HttpDone(known ? request.method : "other",
                     IsRoute(request.path) ? request.path : "other", response.status);
    return response;
  };
}

}  // namespace k3::server
