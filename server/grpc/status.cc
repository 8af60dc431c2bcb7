#include "server/grpc/status.h"

#include <functional>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/server_context.h>

namespace k3::server {
namespace {

using google::protobuf::internal::WireFormatLite;
using Output = google::protobuf::io::CodedOutputStream;

// google.rpc.Status and ErrorInfo are four fields together and not packaged: written as bytes.
std::string Message(const std::function<void(Output*)>& fields) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  Output output(&stream);
  fields(&output);
  output.Trim();
  return bytes;
}

std::string Details(grpc::StatusCode code, const ApiError& error) {
  const std::string info = Message([&](Output* out) {
    WireFormatLite::WriteString(1, error.reason, out);
    WireFormatLite::WriteString(2, "k3serve", out);
  });
  const std::string any = Message([&](Output* out) {
    WireFormatLite::WriteString(1, "type.googleapis.com/google.rpc.ErrorInfo", out);
    WireFormatLite::WriteBytes(2, info, out);
  });
  return Message([&](Output* out) {
    WireFormatLite::WriteInt32(1, code, out);
    WireFormatLite::WriteString(2, error.message, out);
    WireFormatLite::WriteBytes(3, any, out);
  });
}

}  // namespace

grpc::StatusCode ToStatusCode(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case Code::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Code::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case Code::kDataLoss:
      return grpc::StatusCode::DATA_LOSS;
    case Code::kDeadlineExceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case Code::kUnimplemented:
      return grpc::StatusCode::UNIMPLEMENTED;
    case Code::kCancelled:
      return grpc::StatusCode::CANCELLED;
    case Code::kInternal:
      break;
  }
  return grpc::StatusCode::INTERNAL;
}

grpc::Status Refuse(grpc::CallbackServerContext& context, const ApiError& error) {
  context.AddTrailingMetadata("k3-error-reason", error.reason);
  if (error.retry_after_ms) {
    context.AddTrailingMetadata("retry-after-ms", std::to_string(*error.retry_after_ms));
  }
  const grpc::StatusCode code = ToStatusCode(error.code);
  return {code, error.message, Details(code, error)};
}

}  // namespace k3::server
