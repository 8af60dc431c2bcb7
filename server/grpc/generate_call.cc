#include "server/grpc/generate_call.h"

#include "server/grpc/byte_buffer.h"

namespace k3::server {

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateCall::Serve(
    const FrontEnd& front_end, grpc::CallbackServerContext& context,
    const grpc::ByteBuffer& request) {
  const std::shared_ptr<GenerateCall> call(new GenerateCall(front_end, context, request));
  call->Start();
  return call.get();
}

void GenerateCall::OnWriteDone(bool ok) {
  writing_.store(false);
  ok ? Wake() : Cancelled();
}

void GenerateCall::Open(const std::string& request_id,
                        const k3serve::v1::GenerateRequest& request) {
  events_.emplace(vocabulary(), request_id, request.output());
}

bool GenerateCall::WriteSome() {
  if (events_->empty()) return false;
  outgoing_ = ToBuffer(events_->Pop());
  front_end().metrics.StreamEvents(Api::kGrpc, 1);
  writing_.store(true);
  StartWrite(&outgoing_);
  return true;
}

void GenerateCall::DropUnwritten() {
  if (events_) events_->Clear();
}

}  // namespace k3::server
