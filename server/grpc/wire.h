// Between the protocol's messages and ours. The only file that knows both shapes of a request.
#pragma once
#include <string>

#include "server/admission.h"
#include "server/generation.h"

namespace google::protobuf {
class Message;
}
namespace k3serve::v1 {
class Completed;
class Delta;
class Finished;
class GenerateRequest;
class ModelInfo;
class Started;
}  // namespace k3serve::v1

namespace k3::server {

// Parses `bytes`; a string field that is not UTF-8 is named, with the offset of its first wrong
// byte. The library alone would refuse the whole message as "failed to parse", status INTERNAL.
std::optional<ApiError> ParseMessage(const std::string& bytes, google::protobuf::Message& message);

Ask ToAsk(const k3serve::v1::GenerateRequest& request);

void Fill(const runtime::Started& started, const runtime::SamplingOptions& sampling,
          k3serve::v1::Started& out);
void Fill(const runtime::Finished& finished, k3serve::v1::Finished& out);
void Fill(const runtime::Finished& finished, k3serve::v1::Completed& out);
void Fill(const ServedModel& model, k3serve::v1::ModelInfo& out);

}  // namespace k3::server
