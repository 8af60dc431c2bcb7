// A refusal as gRPC tells it: status and message, the reason in the trailing metadata
// `k3-error-reason` and in the standard binary details, `retry-after-ms` where waiting helps.
#pragma once
#include <grpcpp/support/status.h>

#include "server/api_error.h"

namespace grpc {
class CallbackServerContext;
}

namespace k3::server {

grpc::StatusCode ToStatusCode(Code code);

// Adds the trailing metadata to the call and returns the status to finish it with.
grpc::Status Refuse(grpc::CallbackServerContext& context, const ApiError& error);

}  // namespace k3::server
