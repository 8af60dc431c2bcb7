#include "server/ctl/client.h"

#include <cstdio>
#include <future>

#include <google/protobuf/util/json_util.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include "proto/k3serve/v1/control.grpc.pb.h"
#include "proto/k3serve/v1/inference.grpc.pb.h"

namespace k3::server::ctl {
namespace {

namespace pb = k3serve::v1;

constexpr int kStatusExitBase = 10;
constexpr int kNotServing = 1;
constexpr int kHealthDeadlineSeconds = 5;

std::shared_ptr<grpc::Channel> Connect(const std::string& server) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), arguments);
}

int Report(const grpc::Status& status, const grpc::ClientContext& context) {
  if (status.ok()) return 0;
  const auto& trailing = context.GetServerTrailingMetadata();
  const auto reason = trailing.find("k3-error-reason");
  const std::string name =
      reason == trailing.end() ? "" : std::string(reason->second.data(), reason->second.size());
  std::fprintf(stderr, "k3ctl: %s%s%s (gRPC status %d)\n", name.c_str(), name.empty() ? "" : ": ",
               status.error_message().c_str(), status.error_code());
  return kStatusExitBase + status.error_code();
}

pb::GenerateRequest ToRequest(const GenerateCommand& command) {
  pb::GenerateRequest request;
  if (command.prompt_ids.empty()) {
    request.set_text(command.text);
  } else {
    request.mutable_token_ids()->mutable_ids()->Add(command.prompt_ids.begin(),
                                                    command.prompt_ids.end());
  }
  pb::SamplingParams& sampling = *request.mutable_sampling();
  if (command.temperature) sampling.set_temperature(*command.temperature);
  if (command.top_p) sampling.set_top_p(*command.top_p);
  if (command.seed) sampling.set_seed(*command.seed);
  if (command.max_tokens) request.mutable_stop()->set_max_new_tokens(*command.max_tokens);
  if (command.ignore_eos) request.mutable_stop()->set_ignore_eos(true);
  if (command.show_ids) {
    request.mutable_output()->set_want_text(false);
    request.mutable_output()->set_want_token_ids(true);
  }
  return request;
}

void ShowText(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void ShowIds(const pb::Delta& delta) {
  for (const std::uint32_t id : delta.token_ids()) std::printf("%u ", id);
  std::fflush(stdout);
}

void ShowUsage(const pb::Completed& completed, const std::string& reason, std::uint64_t seed) {
  const pb::Usage& usage = completed.usage();
  const pb::Timings& timings = completed.timings();
  const double per_second = timings.decode_ms() > 0 && usage.completion_tokens() > 1
                                ? (usage.completion_tokens() - 1) * 1000.0 / timings.decode_ms()
                                : 0;
  std::fprintf(stderr,
               "%s; %u prompt tokens (%u cached), %u generated; first after %.0f ms, then %.1f "
               "tokens/s; seed %llu\n",
               reason.c_str(), usage.prompt_tokens(), usage.cached_tokens(),
               usage.completion_tokens(), timings.ttft_ms(), per_second,
               static_cast<unsigned long long>(seed));
}

grpc::Slice HealthRequest(const std::string& service) {
  if (service.empty()) return {};
  std::string bytes{"\x0a"};  // field 1, a string; names are shorter than 128 bytes
  bytes += static_cast<char>(service.size());
  return grpc::Slice(bytes + service);
}

}  // namespace

int Generate(const GenerateCommand& command) {
  const auto stub = pb::Inference::NewStub(Connect(command.server));
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, ToRequest(command));
  pb::GenerateEvent event;
  std::string reason;
  std::uint64_t seed = 0;
  while (reader->Read(&event)) {
    if (event.has_started()) seed = event.started().sampling().seed();
    if (event.has_delta()) {
      command.show_ids ? ShowIds(event.delta()) : ShowText(event.delta().text());
    }
    if (event.has_finished()) {
      ShowText(event.finished().text());
      reason = pb::FinishReason_Name(event.finished().reason());
    }
    if (event.has_completed()) {
      ShowText("\n");
      ShowUsage(event.completed(), reason, seed);
    }
  }
  return Report(reader->Finish(), context);
}

int Health(const std::string& server, const std::string& service) {
  grpc::GenericStub stub(Connect(server));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(kHealthDeadlineSeconds));
  // grpc.health.v1 is two one-field messages, not worth a generated file: bytes will do.
  const grpc::Slice slice = HealthRequest(service);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&done](grpc::Status status) { done.set_value(std::move(status)); });
  const grpc::Status status = done.get_future().get();
  if (!status.ok()) return Report(status, context);
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (response.Dump(&slices).ok()) {
    for (const grpc::Slice& part : slices) {
      bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
    }
  }
  const bool serving = bytes == "\x08\x01";
  std::puts(serving ? "SERVING" : "NOT_SERVING");
  return serving ? 0 : kNotServing;
}

int Info(const std::string& server) {
  const auto stub = pb::Control::NewStub(Connect(server));
  grpc::ClientContext context;
  pb::ModelInfo info;
  const grpc::Status status = stub->GetModelInfo(&context, {}, &info);
  if (!status.ok()) return Report(status, context);
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  if (google::protobuf::util::MessageToJsonString(info, &json, options).ok()) {
    std::fputs(json.c_str(), stdout);
  }
  return 0;
}

int Tokenize(const std::string& server, const std::string& text) {
  const auto stub = pb::Inference::NewStub(Connect(server));
  grpc::ClientContext context;
  pb::TokenizeRequest request;
  request.set_text(text);
  pb::TokenizeResponse response;
  const grpc::Status status = stub->Tokenize(&context, request, &response);
  if (!status.ok()) return Report(status, context);
  const char* separator = "";
  for (const std::uint32_t id : response.token_ids()) {
    std::printf("%s%u", separator, id);
    separator = " ";
  }
  std::puts("");
  return 0;
}

int Detokenize(const std::string& server, const std::vector<std::uint32_t>& ids) {
  const auto stub = pb::Inference::NewStub(Connect(server));
  grpc::ClientContext context;
  pb::DetokenizeRequest request;
  request.mutable_token_ids()->Add(ids.begin(), ids.end());
  pb::DetokenizeResponse response;
  const grpc::Status status = stub->Detokenize(&context, request, &response);
  if (!status.ok()) return Report(status, context);
  std::puts(response.text().c_str());
  return 0;
}

}  // namespace k3::server::ctl
