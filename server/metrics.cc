#include "server/metrics.h"

#include <algorithm>
#include <array>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sstream>

#include "server/engine_collector.h"

namespace k3::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using Labels = prometheus::Labels;

constexpr std::array<const char*, kNumApis> kApis = {"grpc"};
constexpr std::array<const char*, kNumGrpcMethods> kMethods = {"Generate", "Tokenize", "Detokenize",
                                                               "GetModelInfo"};
constexpr std::array<const char*, kNumOutcomes> kOutcomes = {"stop_eos", "stop_token", "length",
                                                             "aborted",  "deadline",   "error"};
constexpr std::array kRejections = {"queue_full", "invalid",  "too_long",
                                    "not_found",  "draining", "loading"};
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

template <typename E>
constexpr std::size_t Index(E value) {
  return static_cast<std::size_t>(value);
}

const char* RejectionOf(const ApiError& error) {
  switch (error.code) {
    case Code::kResourceExhausted:
      return "queue_full";
    case Code::kNotFound:
      return "not_found";
    case Code::kUnavailable:
      return error.reason == reason::kDraining ? "draining" : "loading";
    default:
      return error.reason == reason::kContextLengthExceeded ? "too_long" : "invalid";
  }
}

// The collector's part of a family joins the registry's: a name may head only one block.
void MergeInto(std::vector<prometheus::MetricFamily>& all,
               std::vector<prometheus::MetricFamily> more) {
  for (prometheus::MetricFamily& family : more) {
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const auto& other) { return other.name == family.name; });
    if (same == all.end()) {
      all.push_back(std::move(family));
    } else {
      same->metric.insert(same->metric.end(), family.metric.begin(), family.metric.end());
    }
  }
}

}  // namespace

Outcome OutcomeOf(runtime::FinishReason reason) {
  switch (reason) {
    case runtime::FinishReason::kStopEos:
      return Outcome::kStopEos;
    case runtime::FinishReason::kStopToken:
      return Outcome::kStopToken;
    case runtime::FinishReason::kLengthMaxTokens:
    case runtime::FinishReason::kLengthContext:
      return Outcome::kLength;
    case runtime::FinishReason::kAborted:
      return Outcome::kAborted;
    case runtime::FinishReason::kError:
      break;
  }
  return Outcome::kError;
}

const char* GrpcCodeName(int code) {
  return code >= 0 && code < kNumGrpcCodes ? kCodes[static_cast<std::size_t>(code)] : "UNKNOWN";
}

struct Metrics::Series {
  Series(const Lifecycle& lifecycle, const Labels& constant);

  Family<Counter>& CounterFamily(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Labels(constant).Register(registry);
  }
  Family<Histogram>& HistogramFamily(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Labels(constant).Register(registry);
  }
  void AddCalls();
  void AddRequests();

  Labels constant;
  prometheus::Registry registry;
  EngineCollector engine;
  std::array<Counter*, kNumApis> received{};
  std::array<std::array<Counter*, kNumOutcomes>, kNumApis> finished{};
  std::array<Histogram*, kNumApis> first_token{};
  std::array<Histogram*, kNumApis> duration{};
  Histogram* tokenize = nullptr;
  Family<Counter>* rejected = nullptr;
  Family<Counter>* grpc = nullptr;
  Family<Counter>* http = nullptr;
};

Metrics::Series::Series(const Lifecycle& lifecycle, const Labels& labels)
    : constant(labels), engine(lifecycle, [&] {
        std::vector<prometheus::ClientMetric::Label> list;
        for (const auto& [name, value] : labels) list.push_back({name, value});
        return list;
      }()) {
  AddRequests();
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
    received[api] = &received_family.Add({{"api", kApis[api]}, {"stream", "true"}});
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

Metrics::Metrics(const Lifecycle& lifecycle, const std::string& model_name)
    : series_(std::make_unique<Series>(lifecycle,
                                       Labels{{"model_name", model_name}, {"replica", "0"}})) {}

Metrics::~Metrics() = default;

void Metrics::Received(Api api) {
  series_->received[Index(api)]->Increment();
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
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return out.str();
}

}  // namespace k3::server
