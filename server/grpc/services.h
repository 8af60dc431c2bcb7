// The two services of k3serve.v1. Handlers return at once: whatever takes time runs on text
// threads.
#pragma once
#include <memory>

#include "server/front_end.h"

namespace grpc {
class Service;
}

namespace k3::server {

std::unique_ptr<grpc::Service> MakeInferenceService(const FrontEnd& front_end);
std::unique_ptr<grpc::Service> MakeControlService(const FrontEnd& front_end);

}  // namespace k3::server
