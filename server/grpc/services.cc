#include "server/grpc/services.h"

#include <utility>

#include "proto/k3serve/v1/control.grpc.pb.h"
#include "proto/k3serve/v1/inference.grpc.pb.h"
#include "server/grpc/byte_buffer.h"
#include "server/grpc/complete_call.h"
#include "server/grpc/generate_call.h"
#include "server/grpc/status.h"
#include "server/grpc/wire.h"

namespace k3::server {
namespace {

namespace pb = k3serve::v1;

// Raw, so that ParseMessage and not the library judges what a client sent.
using InferenceBase = pb::Inference::WithRawCallbackMethod_Generate<
    pb::Inference::WithRawCallbackMethod_Complete<pb::Inference::WithRawCallbackMethod_Tokenize<
        pb::Inference::WithRawCallbackMethod_Detokenize<pb::Inference::Service>>>>;

ApiResult<pb::TokenizeResponse> Answer(const ServedModel& model,
                                       const pb::TokenizeRequest& request) {
  const std::vector<std::int32_t> ids = model.tokenizer.Encode(request.text());
  pb::TokenizeResponse response;
  response.mutable_token_ids()->Add(ids.begin(), ids.end());
  return response;
}

ApiResult<pb::DetokenizeResponse> Answer(const ServedModel& model,
                                         const pb::DetokenizeRequest& request) {
  const std::vector<std::uint32_t> ids(request.token_ids().begin(), request.token_ids().end());
  if (const auto outside = CheckTokenIds(model, "token_ids", ids)) return *outside;
  const std::vector<std::int32_t> tokens(ids.begin(), ids.end());
  pb::DetokenizeResponse response;
  response.set_text(runtime::DecodeText(model.tokenizer.vocabulary(), tokens));
  return response;
}

template <typename Request>
auto Serve(const Lifecycle& lifecycle, const std::string& bytes)
    -> decltype(Answer(std::declval<const ServedModel&>(), std::declval<const Request&>())) {
  if (const auto refusal = lifecycle.Refusal()) return *refusal;
  Request request;
  if (const auto error = ParseMessage(bytes, request)) return *error;
  const ServedModel& model = *lifecycle.model();
  if (const auto unknown = CheckModelName(model, request.model())) return *unknown;
  return Answer(model, request);
}

class InferenceService final : public InferenceBase {
 public:
  explicit InferenceService(const FrontEnd& front_end) : front_end_(front_end) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override {
    return GenerateCall::Serve(front_end_, *context, *request);
  }

  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override {
    return CompleteCall::Serve(front_end_, *context, *request, *response);
  }

  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override {
    return Unary<pb::TokenizeRequest>(GrpcMethod::kTokenize, *context, *request, *response);
  }

  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override {
    return Unary<pb::DetokenizeRequest>(GrpcMethod::kDetokenize, *context, *request, *response);
  }

 private:
  template <typename Request>
  grpc::ServerUnaryReactor* Unary(GrpcMethod method, grpc::CallbackServerContext& context,
                                  const grpc::ByteBuffer& request, grpc::ByteBuffer& response) {
    grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
    // All three references live until the reactor is finished.
    front_end_.pool.Post([front_end = front_end_, method, reactor, &context, &request, &response] {
      auto answer = Serve<Request>(front_end.lifecycle, ToString(request));
      grpc::Status status;
      if (const auto* error = std::get_if<ApiError>(&answer)) {
        status = Refuse(context, *error);
      } else {
        response = ToBuffer(std::get<0>(answer));
      }
      front_end.metrics.GrpcDone(method, status.error_code());
      reactor->Finish(status);
    });
    return reactor;
  }

  FrontEnd front_end_;
};

// Answers while loading and draining too: an operator asks most when something is not well.
class ControlService final : public pb::Control::CallbackService {
 public:
  explicit ControlService(const FrontEnd& front_end) : front_end_(front_end) {}

  grpc::ServerUnaryReactor* GetModelInfo(grpc::CallbackServerContext* context,
                                         const pb::GetModelInfoRequest* /*request*/,
                                         pb::ModelInfo* response) override {
    grpc::Status status;
    if (const ServedModel* model = front_end_.lifecycle.model()) {
      Fill(*model, *response);
    } else {
      const auto refusal = front_end_.lifecycle.Refusal();
      status = Refuse(*context, refusal.value_or(ApiError{Code::kUnavailable, reason::kLoading,
                                                          "the model was loaded just now", 0}));
    }
    return Done(*context, GrpcMethod::kGetModelInfo, status);
  }

  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const pb::GetServerInfoRequest* /*request*/,
                                          pb::ServerInfo* response) override {
    Fill(front_end_, *response);
    return Done(*context, GrpcMethod::kGetServerInfo);
  }

  grpc::ServerUnaryReactor* GetLoads(grpc::CallbackServerContext* context,
                                     const pb::GetLoadsRequest* request,
                                     pb::LoadSnapshot* response) override {
    Fill(front_end_, request->max_requests(), *response);
    return Done(*context, GrpcMethod::kGetLoads);
  }

  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context,
                                  const pb::AbortRequest* request,
                                  pb::AbortResponse* response) override {
    const CallRegistry::Which which{
        .request_ids = {request->request_ids().begin(), request->request_ids().end()},
        .prefix = request->prefix(),
        .all = request->all()};
    response->set_aborted(
        static_cast<std::uint32_t>(front_end_.calls.Abort(which, request->reason())));
    return Done(*context, GrpcMethod::kAbort);
  }

  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const pb::DrainRequest* request,
                                  pb::DrainResponse* response) override {
    pb::LoadSnapshot now;
    Fill(front_end_, 0, now);
    response->set_running(now.running());
    response->set_waiting(now.waiting());
    std::optional<std::chrono::seconds> timeout;
    if (request->has_timeout_seconds()) timeout.emplace(request->timeout_seconds());
    front_end_.program.drain(timeout);
    return Done(*context, GrpcMethod::kDrain);
  }

 private:
  grpc::ServerUnaryReactor* Done(grpc::CallbackServerContext& context, GrpcMethod method,
                                 const grpc::Status& status = grpc::Status::OK) {
    front_end_.metrics.GrpcDone(method, status.error_code());
    grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }

  FrontEnd front_end_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeInferenceService(const FrontEnd& front_end) {
  return std::make_unique<InferenceService>(front_end);
}

std::unique_ptr<grpc::Service> MakeControlService(const FrontEnd& front_end) {
  return std::make_unique<ControlService>(front_end);
}

}  // namespace k3::server
