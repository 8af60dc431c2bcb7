#include "server/grpc/complete_call.h"

#include "server/grpc/byte_buffer.h"

namespace k3::server {

grpc::ServerUnaryReactor* CompleteCall::Serve(const FrontEnd& front_end,
                                              grpc::CallbackServerContext& context,
                                              const grpc::ByteBuffer& request,
                                              grpc::ByteBuffer& response) {
  const std::shared_ptr<CompleteCall> call(new CompleteCall(front_end, context, request, response));
  call->Start();
  return call.get();
}

void CompleteCall::FinishCall(const grpc::Status& status) {
  if (status.ok()) response_ = ToBuffer(result_->Take());
  Finish(status);
}

}  // namespace k3::server
