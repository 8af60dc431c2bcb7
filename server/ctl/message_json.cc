#include "server/ctl/message_json.h"

#include <google/protobuf/util/json_util.h>

#include "kernels/base/check.h"

namespace k3::server::ctl {
namespace {

std::string ToJson(const google::protobuf::Message& message, bool indented) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = indented;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // It fails for Any and Timestamp alone, and the protocol has neither.
  K3_CHECK(google::protobuf::util::MessageToJsonString(message, &json, options).ok());
  return json;
}

}  // namespace

std::string ToJsonLine(const google::protobuf::Message& message) {
  return ToJson(message, false);
}

std::string ToJsonBlock(const google::protobuf::Message& message) {
  return ToJson(message, true);
}

}  // namespace k3::server::ctl
