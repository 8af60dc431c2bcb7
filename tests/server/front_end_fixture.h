// The whole front end, ports and all, over a FakeEngine and the embedded tokenizer.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "proto/k3serve/v1/control.grpc.pb.h"
#include "proto/k3serve/v1/inference.grpc.pb.h"
#include "server/grpc/grpc_server.h"
#include "server/http/http_server.h"
#include "tests/server/fake_engine.h"

namespace k3::server::testing {

namespace pb = k3serve::v1;

// What one Generate call gave.
struct Collected {
  std::vector<pb::GenerateEvent> events;
  grpc::Status status;
  std::string reason;        // k3-error-reason
  std::string retry_after;   // retry-after-ms
  std::string text() const;  // of all deltas and the end
};

class FrontEndTest : public ::testing::Test {
 protected:
  FrontEndTest();
  ~FrontEndTest() override;

  void BecomeReady();
  void Drain();

  Collected Generate(const pb::GenerateRequest& request);
  Collected GenerateBytes(const std::string& bytes);  // whatever they are
  std::string Metrics() const { return metrics_.Text(); }
  using Labels = std::map<std::string, std::string>;
  // The sum over all series of this name that carry these labels; -1 when there is none.
  double Metric(const std::string& name, const Labels& labels = {}) const;
  // Waits until it has that value: counting comes a moment after the client sees the end.
  bool MetricBecomes(const std::string& name, const Labels& labels, double value) const;
  std::string Http(const std::string& request) const;  // raw bytes in, raw bytes out
  std::string HttpGet(const std::string& path) const;
  int HealthOf(const std::string& service) const;  // 1 SERVING, 2 NOT_SERVING

  // The ids of a text, for scripting.
  std::vector<runtime::Token> Ids(const std::string& text) const;

  FakeEngine* engine_ = nullptr;  // of model_
  Lifecycle lifecycle_;
  std::unique_ptr<ServedModel> model_;
  server::Metrics metrics_;
  CallRegistry calls_;
  RequestLog log_;
  ProgramHandle program_;
  std::optional<std::optional<std::chrono::seconds>> drained_;  // what Drain asked for
  TextPool pool_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<GrpcServer> grpc_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<pb::Inference::Stub> stub_;
  std::unique_ptr<pb::Control::Stub> control_;
};

pb::GenerateRequest TextRequest(const std::string& text);

}  // namespace k3::server::testing
