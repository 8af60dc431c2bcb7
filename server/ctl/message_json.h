// A message of the protocol as JSON, with the names of the .proto files and every number said.
#pragma once
#include <string>

namespace google::protobuf {
class Message;
}

namespace k3::server::ctl {

std::string ToJsonLine(const google::protobuf::Message& message);   // without a newline
std::string ToJsonBlock(const google::protobuf::Message& message);  // indented, for people

}  // namespace k3::server::ctl
