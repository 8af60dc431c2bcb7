// The streaming surface of a request: one write outstanding at a time.
#pragma once
#include "server/grpc/event_stream.h"
#include "server/grpc/request_call.h"

namespace k3::server {

class GenerateCall final : public RequestCall, public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // The call keeps itself alive until gRPC is done with it.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Serve(const FrontEnd& front_end,
                                                           grpc::CallbackServerContext& context,
                                                           const grpc::ByteBuffer& request);

 private:
  GenerateCall(const FrontEnd& front_end, grpc::CallbackServerContext& context,
               const grpc::ByteBuffer& request)
      : RequestCall(front_end, GrpcMethod::kGenerate, context, request) {}

  void OnWriteDone(bool ok) override;
  void OnCancel() override { Cancelled(); }
  void OnDone() override { Done(); }

  void Open(const std::string& request_id, const k3serve::v1::GenerateRequest& request) override;
  bool want_text() const override { return events_->want_text(); }
  void Begin(const Admitted& admitted) override { events_->Admitted(admitted); }
  void Add(GenerationStep step) override { events_->Add(std::move(step)); }
  bool busy() const override { return writing_.load(); }
  bool WriteSome() override;
  void DropUnwritten() override;
  void FinishCall(const grpc::Status& status) override { Finish(status); }

  std::atomic<bool> writing_{false};
  std::optional<EventStream> events_;
  grpc::ByteBuffer outgoing_;
};

}  // namespace k3::server
