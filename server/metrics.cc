#include "server/metrics.h"

#include <array>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sstream>

#include "server/engine_collector.h"
#include "server/family_builder.h"
#include "server/metrics_compat.h"
#include "server/process_stats.h"

namespace k3::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using Labels = prometheus::Labels;

constexpr std::array<const char*, kNumApis> kApis = {"grpc"};
constexpr std::array<const char*, kNumGrpcMethods> kMethods = {
    "Generate",      "Complete", "Tokenize", "Detokenize", "GetModelInfo",
    "GetServerInfo", "GetLoads", "Abort",    "Drain"};
constexpr std::array<const char*, kNumOutcomes> kOutcomes = {
    "stop_eos", "stop_token", "stop_string", "length",
    "aborted",  "deadline",   "slow_client", "error"};
constexpr std::array kRejections = {"queue_full", "tokens_full", "invalid", "too_long",
                                    "not_found",  "draining",    "loading", "unimplemented"};
constexpr std::array kCodes = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};
static_assert(kCodes.size() == kNumGrpcCodes);

template <std::size_t N>
Histogram::BucketBoundaries Bounds(const std::array<double, N>& bounds) {
  return {bounds.begin(), bounds.end()};
}

MetricLabels AsList(const Labels& labels) {
  MetricLabels list;
  for (const auto& [name, value] : labels) list.push_back({name, value});
  return list;
}

template <typename E>
constexpr std::size_t Index(E value) {
  return static_cast<std::size_t>(value);
}

const char* RejectionOf(const ApiError& error) {
  switch (error.code) {
    case Code::kResourceExhausted:
      return error.reason == reason::kQueueTokensFull ? "tokens_full" : "queue_full";
    case Code::kUnimplemented:
      return "unimplemented";
    case Code::kNotFound:
      return "not_found";
    case Code::kUnavailable:
      return error.reason == reason::kDraining ? "draining" : "loading";
    default:
      return error.reason == reason::kContextLengthExceeded ? "too_long" : "invalid";
  }
}

}  // namespace

Outcome OutcomeOf(runtime::FinishReason reason) {
  switch (reason) {
    case runtime::FinishReason::kStopEos:
      return Outcome::kStopEos;
    case runtime::FinishReason::kStopToken:
      return Outcome::kStopToken;
    case runtime::FinishReason::kStopString:
      return Outcome::kStopString;
    case runtime::FinishReason::kLengthMaxTokens:
    case runtime::FinishReason::kLengthContext:
      return Outcome::kLength;
    case runtime::FinishReason::kAborted:
      return Outcome::kAborted;
    case runtime::FinishReason::kDeadline:
      return Outcome::kDeadline;
    case runtime::FinishReason::kSlowClient:
      return Outcome::kSlowClient;
    case runtime::FinishReason::kError:
      break;
  }
  return Outcome::kError;
}

const char* NameOf(Outcome outcome) {
  return kOutcomes[Index(outcome)];
}

const char* GrpcCodeName(int code) {
  return code >= 0 && code < kNumGrpcCodes ? kCodes[static_cast<std::size_t>(code)] : "UNKNOWN";
}

struct Metrics::Series {
  Series(const Lifecycle& lifecycle, const std::string& model_name);

  Family<Counter>& CounterFamily(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Labels(constant).Register(registry);
  }
  Family<Histogram>& HistogramFamily(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Labels(constant).Register(registry);
  }
  Counter& ApiCounter(const char* name, const char* help, std::size_t api) {
    return CounterFamily(name, help).Add({{"api", kApis[api]}});
  }
  void AddRequests();
  void AddStreams();
  void AddCalls();

  std::string model_name;
  Labels constant = {{"model_name", model_name}, {"replica", "0"}};
  prometheus::Registry registry;
  EngineCollector engine;
  std::array<std::array<Counter*, 2>, kNumApis> received{};  // by whether it streams
  std::array<std::array<Counter*, kNumOutcomes>, kNumApis> finished{};
  std::array<Histogram*, kNumApis> first_token{};
  std::array<Histogram*, kNumApis> duration{};
  std::array<Counter*, kNumApis> slow_clients{};
  std::array<Counter*, kNumApis> disconnects{};
  std::array<Counter*, kNumApis> stream_events{};
  Histogram* tokenize = nullptr;
  Family<Counter>* rejected = nullptr;
  Family<Counter>* grpc = nullptr;
  Family<Counter>* http = nullptr;
};

Metrics::Series::Series(const Lifecycle& lifecycle, const std::string& name)
    : model_name(name), engine(lifecycle, AsList(constant)) {
  AddRequests();
  AddStreams();
  AddCalls();
}

void Metrics::Series::AddRequests() {
  auto& received_family = CounterFamily("k3serve_requests_received_total", "Requests received");
  auto& finished_family = CounterFamily("k3serve_requests_finished_total", "Requests that ended");
  auto& first_family = HistogramFamily("k3serve_time_to_first_token_seconds",
                                       "From the arrival of a request to its first token");
  auto& duration_family = HistogramFamily("k3serve_request_duration_seconds",
                                          "From the arrival of a request to its end");
  for (std::size_t api = 0; api < kNumApis; ++api) {
    const Labels label = {{"api", kApis[api]}};
    received[api] = {&received_family.Add({{"api", kApis[api]}, {"stream", "false"}}),
                     &received_family.Add({{"api", kApis[api]}, {"stream", "true"}})};
    first_token[api] = &first_family.Add(label, Bounds(runtime::kTtftBounds));
    duration[api] = &duration_family.Add(label, Bounds(runtime::kDurationBounds));
    for (std::size_t outcome = 0; outcome < kNumOutcomes; ++outcome) {
      finished[api][outcome] =
          &finished_family.Add({{"api", kApis[api]}, {"reason", kOutcomes[outcome]}});
    }
  }
  rejected = &CounterFamily("k3serve_requests_rejected_total", "Requests refused at the door");
  for (const char* why : kRejections) rejected->Add({{"reason", why}});
  tokenize = &HistogramFamily("k3serve_request_phase_seconds", "Time of a request in one phase")
                  .Add({{"phase", "tokenize"}}, Bounds(runtime::kDurationBounds));
}

void Metrics::Series::AddStreams() {
  for (std::size_t api = 0; api < kNumApis; ++api) {
    slow_clients[api] = &ApiCounter("k3serve_slow_clients_total",
                                    "Requests ended because their client did not read", api);
    disconnects[api] = &ApiCounter("k3serve_client_disconnects_total",
                                   "Requests whose client left before the end", api);
    stream_events[api] = &ApiCounter("k3serve_stream_events_total", "Events written", api);
  }
}

void Metrics::Series::AddCalls() {
  grpc = &CounterFamily("k3serve_grpc_requests_total", "gRPC calls by method and status");
  for (const char* method : kMethods) {
    for (const char* code : kCodes) grpc->Add({{"method", method}, {"code", code}});
  }
  http = &CounterFamily("k3serve_http_requests_total", "HTTP requests by route and status");
  for (const char* route : {"/livez", "/readyz", "/health", "/metrics", "/version"}) {
    http->Add({{"method", "GET"}, {"route", route}, {"code", "200"}});
  }
  for (const char* route : {"/livez", "/readyz", "/health"}) {
    http->Add({{"method", "GET"}, {"route", route}, {"code", "503"}});
  }
  http->Add({{"method", "GET"}, {"route", "other"}, {"code", "404"}});
}

Metrics::Metrics(const Lifecycle& lifecycle, const std::string& model_name, bool vllm_names)
    : vllm_names_(vllm_names), series_(std::make_unique<Series>(lifecycle, model_name)) {}

Metrics::~Metrics() = default;

void Metrics::Received(Api api, bool stream) {
  series_->received[Index(api)][stream ? 1 : 0]->Increment();
}

void Metrics::Rejected(const ApiError& error) {
  series_->rejected->Add({{"reason", RejectionOf(error)}}).Increment();
}

void Metrics::Finished(Api api, Outcome outcome, double seconds) {
  series_->finished[Index(api)][Index(outcome)]->Increment();
  series_->duration[Index(api)]->Observe(seconds);
}

void Metrics::FirstToken(Api api, double seconds) {
  series_->first_token[Index(api)]->Observe(seconds);
}

void Metrics::Tokenized(double seconds) {
  series_->tokenize->Observe(seconds);
}

void Metrics::SlowClient(Api api) {
  series_->slow_clients[Index(api)]->Increment();
}

void Metrics::Disconnected(Api api) {
  series_->disconnects[Index(api)]->Increment();
}

void Metrics::StreamEvents(Api api, int count) {
  series_->stream_events[Index(api)]->Increment(count);
}

void Metrics::GrpcDone(GrpcMethod method, int code) {
  series_->grpc->Add({{"method", kMethods[Index(method)]}, {"code", GrpcCodeName(code)}})
      .Increment();
}

void Metrics::HttpDone(const std::string& method, const std::string& route, int status) {
  series_->http->Add({{"method", method}, {"route", route}, {"code", std::to_string(status)}})
      .Increment();
}

std::string Metrics::Text() const {
  std::vector<prometheus::MetricFamily> families = series_->registry.Collect();
  MergeInto(families, series_->engine.Collect());
  if (vllm_names_) MergeInto(families, VllmFamilies(families, series_->model_name));
  MergeInto(families, ProcessFamilies());
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return out.str();
}

}  // namespace k3::server
