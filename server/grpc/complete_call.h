// The unary surface of a request: everything at once, when all choices are done.
#pragma once
#include "server/grpc/request_call.h"
#include "server/grpc/result_builder.h"

namespace k3::server {

class CompleteCall final : public RequestCall, public grpc::ServerUnaryReactor {
 public:
  // The call keeps itself alive until gRPC is done with it; so does `response`.
  static grpc::ServerUnaryReactor* Serve(const FrontEnd& front_end,
                                         grpc::CallbackServerContext& context,
                                         const grpc::ByteBuffer& request,
                                         grpc::ByteBuffer& response);

 private:
  CompleteCall(const FrontEnd& front_end, grpc::CallbackServerContext& context,
               const grpc::ByteBuffer& request, grpc::ByteBuffer& response)
      : RequestCall(front_end, GrpcMethod::kComplete, context, request), response_(response) {}

  void OnCancel() override { Cancelled(); }
  void OnDone() override { Done(); }

  void Open(const std::string& request_id, const k3serve::v1::GenerateRequest& request) override {
    result_.emplace(vocabulary(), request_id, request.output());
  }
  bool want_text() const override { return result_->want_text(); }
  void Begin(const Admitted& admitted) override { result_->Admitted(admitted); }
  void Add(GenerationStep step) override { result_->Add(std::move(step)); }
  bool busy() const override { return false; }
  bool WriteSome() override { return false; }
  void DropUnwritten() override {}
  void FinishCall(const grpc::Status& status) override;

  grpc::ByteBuffer& response_;
  std::optional<ResultBuilder> result_;
};

}  // namespace k3::server
