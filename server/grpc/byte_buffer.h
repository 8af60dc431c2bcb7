// Messages as gRPC's raw methods carry them.
#pragma once
#include <string>

#include <grpcpp/support/byte_buffer.h>

namespace google::protobuf {
class Message;
}

namespace k3::server {

std::string ToString(const grpc::ByteBuffer& buffer);
grpc::ByteBuffer ToBuffer(const google::protobuf::Message& message);

}  // namespace k3::server
