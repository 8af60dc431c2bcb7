// Between the protocol's messages and ours. The only file that knows both shapes of a request.
#pragma once
#include <string>
#include <vector>

#include <google/protobuf/repeated_ptr_field.h>

#include "server/admission.h"

namespace google::protobuf {
class Message;
}
namespace k3serve::v1 {
class Finished;
class GenerateRequest;
class LoadSnapshot;
class ModelInfo;
class ServerInfo;
class Started;
class TokenLogprobs;
}  // namespace k3serve::v1

namespace k3::server {

struct FrontEnd;

// Parses `bytes`; a string field that is not UTF-8 is named, with the offset of its first wrong
// byte. The library alone would refuse the whole message as "failed to parse", status INTERNAL.
std::optional<ApiError> ParseMessage(const std::string& bytes, google::protobuf::Message& message);

Ask ToAsk(const k3serve::v1::GenerateRequest& request);

// These ends are told as a status, never as an event.
bool EndsInStatus(runtime::FinishReason reason);

void Fill(const runtime::Started& started, const Admitted& admitted, k3serve::v1::Started& out);
void Fill(const runtime::Finished& finished, const std::optional<std::string>& stop_string,
          k3serve::v1::Finished& out);
void Fill(const ServedModel& model, k3serve::v1::ModelInfo& out);
void Fill(const FrontEnd& front_end, k3serve::v1::ServerInfo& out);
// At most `most_requests` of those in flight are listed, oldest first.
void Fill(const FrontEnd& front_end, std::size_t most_requests, k3serve::v1::LoadSnapshot& out);

// `logprobs` is empty, or has one per token.
void AddLogprobs(const runtime::Vocabulary& vocabulary, const std::vector<runtime::Token>& tokens,
                 const std::vector<runtime::Logprobs>& logprobs,
                 google::protobuf::RepeatedPtrField<k3serve::v1::TokenLogprobs>& out);

}  // namespace k3::server
