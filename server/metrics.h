// The numbers a scrape shows: what the front end counts itself, and the engine's counters.
//   1. Every series is there, at zero, from the first scrape on; names never change.
//   2. Labels hold only what this header enumerates, never a client's words.
// Any thread may count; counting never waits for a scrape longer than a few nanoseconds.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/lifecycle.h"

namespace k3::server {

enum class Api : std::uint8_t { kGrpc };
inline constexpr int kNumApis = 1;

enum class GrpcMethod : std::uint8_t {
  kGenerate,
  kComplete,
  kTokenize,
  kDetokenize,
  kGetModelInfo,
  kGetServerInfo,
  kGetLoads,
  kAbort,
  kDrain,
};
inline constexpr int kNumGrpcMethods = 9;

// How a received request ended. Those refused at the door are counted as rejected instead.
enum class Outcome : std::uint8_t {
  kStopEos,
  kStopToken,
  kStopString,
  kLength,
  kAborted,
  kDeadline,
  kSlowClient,
  kError,
};
inline constexpr int kNumOutcomes = 8;
Outcome OutcomeOf(runtime::FinishReason reason);
const char* NameOf(Outcome outcome);

inline constexpr int kNumGrpcCodes = 17;  // of the protocol, OK = 0 .. UNAUTHENTICATED = 16
const char* GrpcCodeName(int code);

class Metrics {
 public:
  // The lifecycle outlives the metrics. `vllm_names`: a scrape shows those of metrics_compat.h too.
  Metrics(const Lifecycle& lifecycle, const std::string& model_name, bool vllm_names);
  ~Metrics();

  void Received(Api api, bool stream = true);
  void Rejected(const ApiError& error);
  void Finished(Api api, Outcome outcome, double seconds);
  void FirstToken(Api api, double seconds);  // since the request arrived
  void Tokenized(double seconds);
  void SlowClient(Api api);    // its request ended because it did not read
  void Disconnected(Api api);  // before the end it was owed
  void StreamEvents(Api api, int count);
  void GrpcDone(GrpcMethod method, int code);
  // `route` is one of ours or "other"; `method` GET, HEAD or "other".
  void HttpDone(const std::string& method, const std::string& route, int status);

  std::string Text() const;  // the exposition format, version 0.0.4

 private:
  struct Series;
  bool vllm_names_;
  std::unique_ptr<Series> series_;
};

}  // namespace k3::server
