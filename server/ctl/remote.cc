#include "server/ctl/remote.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include "proto/k3serve/v1/control.grpc.pb.h"
#include "proto/k3serve/v1/inference.grpc.pb.h"

namespace k3::server::ctl {
namespace {

constexpr std::array kStatusNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

void SetTimeout(grpc::ClientContext& context, TimeoutSeconds timeout) {
  if (!timeout) return;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::microseconds(static_cast<std::int64_t>(*timeout * 1e6)));
}

Outcome ToOutcome(const grpc::Status& status, const grpc::ClientContext& context) {
  Outcome outcome{status.error_code(), "", status.error_message()};
  if (status.ok()) return outcome;
  const auto& trailing = context.GetServerTrailingMetadata();
  const auto reason = trailing.find("k3-error-reason");
  if (reason != trailing.end()) {
    outcome.reason.assign(reason->second.data(), reason->second.size());
  } else if (static_cast<std::size_t>(outcome.status) < kStatusNames.size()) {
    outcome.reason = kStatusNames[static_cast<std::size_t>(outcome.status)];
  }
  return outcome;
}

template <typename Stub, typename Request, typename Response>
Outcome Unary(Stub& stub,
              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
              const Request& request, Response& answer, TimeoutSeconds timeout = kControlSeconds) {
  grpc::ClientContext context;
  SetTimeout(context, timeout);
  const grpc::Status status = (stub.*method)(&context, request, &answer);
  return ToOutcome(status, context);
}

// Lives from Start until gRPC is done with it.
class StreamCall final : public grpc::ClientReadReactor<pb::GenerateEvent> {
 public:
  StreamCall(TimeoutSeconds timeout, Remote::OnEvent on_event, Remote::OnDone on_done)
      : on_event_(std::move(on_event)), on_done_(std::move(on_done)) {
    SetTimeout(context_, timeout);
  }

  void Start(pb::Inference::Stub& stub, const pb::GenerateRequest& request) {
    stub.async()->Generate(&context_, &request, this);
    StartRead(&event_);
    StartCall();
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    on_event_(event_);
    StartRead(&event_);
  }
  // The context refers to the channel, and a channel whose last owner is one of gRPC's own threads
  // takes down the queue that this thread stands in (1.51: double free). So the call is gone before
  // anyone hears of its end and lets go of the Remote.
  void OnDone(const grpc::Status& status) override {
    std::unique_ptr<StreamCall> self(this);
    const Outcome outcome = ToOutcome(status, context_);
    const Remote::OnDone on_done = std::move(on_done_);
    self.reset();
    on_done(outcome);
  }

  grpc::ClientContext context_;
  Remote::OnEvent on_event_;
  Remote::OnDone on_done_;
  pb::GenerateEvent event_;
};

// grpc.health.v1 is two one-field messages, not worth a generated file: bytes will do.
grpc::ByteBuffer HealthRequest(const std::string& service) {
  std::string bytes;
  if (!service.empty()) {
    bytes = "\x0a";  // field 1, a string; names are shorter than 128 bytes
    bytes += static_cast<char>(service.size());
    bytes += service;
  }
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

bool SaysServing(const grpc::ByteBuffer& response) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!response.Dump(&slices).ok()) return false;
  for (const grpc::Slice& part : slices) {
    bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return bytes == "\x08\x01";
}

}  // namespace

int Report(const Outcome& outcome) {
  if (!outcome.ok()) {
    const std::string message = outcome.message.empty() ? "" : ": " + outcome.message;
    std::fprintf(stderr, "k3ctl: %s%s (gRPC status %d)\n", outcome.reason.c_str(), message.c_str(),
                 outcome.status);
  }
  return outcome.exit_code();
}

struct Remote::Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : inference(channel), control(channel), generic(channel) {}
  pb::Inference::Stub inference;
  pb::Control::Stub control;
  grpc::GenericStub generic;
};

Remote::Remote(const std::string& address) : stubs_(std::make_unique<Stubs>(Connect(address))) {}
Remote::~Remote() = default;

void Remote::Stream(const pb::GenerateRequest& request, TimeoutSeconds timeout, OnEvent on_event,
                    OnDone on_done) const {
  auto call = std::make_unique<StreamCall>(timeout, std::move(on_event), std::move(on_done));
  call.release()->Start(stubs_->inference, request);  // its OnDone takes it back
}

Outcome Remote::Complete(const pb::GenerateRequest& request, TimeoutSeconds timeout,
                         pb::GenerateResult& answer) const {
  return Unary(stubs_->inference, &pb::Inference::Stub::Complete, request, answer, timeout);
}

Outcome Remote::Tokenize(const pb::TokenizeRequest& request, pb::TokenizeResponse& answer) const {
  return Unary(stubs_->inference, &pb::Inference::Stub::Tokenize, request, answer);
}

Outcome Remote::Detokenize(const pb::DetokenizeRequest& request,
                           pb::DetokenizeResponse& answer) const {
  return Unary(stubs_->inference, &pb::Inference::Stub::Detokenize, request, answer);
}

Outcome Remote::Health(const std::string& service, bool& serving) const {
  grpc::ClientContext context;
  SetTimeout(context, kControlSeconds);
  const grpc::ByteBuffer request = HealthRequest(service);
  grpc::ByteBuffer response;
  grpc::Status status;
  grpc::CompletionQueue queue;
  const auto call =
      stubs_->generic.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  void* tag = nullptr;
  bool ok = false;
  call->Finish(&response, &status, &tag);
  queue.Next(&tag, &ok);
  if (status.ok()) serving = SaysServing(response);
  return ToOutcome(status, context);
}

Outcome Remote::GetModelInfo(pb::ModelInfo& answer) const {
  return Unary(stubs_->control, &pb::Control::Stub::GetModelInfo, pb::GetModelInfoRequest(),
               answer);
}

Outcome Remote::GetServerInfo(pb::ServerInfo& answer) const {
  return Unary(stubs_->control, &pb::Control::Stub::GetServerInfo, pb::GetServerInfoRequest(),
               answer);
}

Outcome Remote::GetLoads(const pb::GetLoadsRequest& request, pb::LoadSnapshot& answer) const {
  return Unary(stubs_->control, &pb::Control::Stub::GetLoads, request, answer);
}

Outcome Remote::Abort(const pb::AbortRequest& request, pb::AbortResponse& answer) const {
  return Unary(stubs_->control, &pb::Control::Stub::Abort, request, answer);
}

Outcome Remote::Drain(const pb::DrainRequest& request, pb::DrainResponse& answer) const {
  return Unary(stubs_->control, &pb::Control::Stub::Drain, request, answer);
}

}  // namespace k3::server::ctl
