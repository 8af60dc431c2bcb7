#include "server/grpc/grpc_server.h"

#include <fmt/format.h>
#include <mutex>
#include <spdlog/spdlog.h>
#include <utility>

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "server/grpc/services.h"

namespace k3::server {
namespace {

// A long answer without a token for minutes is normal, and so are clients that keep such a
// connection alive; gRPC's default of one ping in five minutes would cut them off.
constexpr int kMinPingIntervalMs = 10'000;
constexpr int kKeepaliveMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;

void LogGrpc(gpr_log_func_args* args) {
  if (args->severity == GPR_LOG_SEVERITY_ERROR) spdlog::debug("grpc: {}", args->message);
}

// Process-wide settings of the libraries; must come before the first server.
void PrepareLibraries() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(LogGrpc);
    google::protobuf::SetLogHandler(nullptr);  // it reports every bad message of a client
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

void Configure(const GrpcOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(-1);
  // Two servers on one port would share its calls by chance.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
}

std::string Address(const GrpcOptions& options) {
  const bool v6 = options.host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", options.host, options.port)
            : fmt::format("{}:{}", options.host, options.port);
}

}  // namespace

struct GrpcServer::Impl {
  std::unique_ptr<grpc::Service> inference;
  std::unique_ptr<grpc::Service> control;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcOptions& options,
                                                      const FrontEnd& front_end) {
  PrepareLibraries();
  auto impl = std::make_unique<Impl>();
  impl->inference = MakeInferenceService(front_end);
  impl->control = MakeControlService(front_end);
  grpc::ServerBuilder builder;
  Configure(options, builder);
  builder.RegisterService(impl->inference.get());
  builder.RegisterService(impl->control.get());
  const std::string address = Address(options);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &impl->port);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0) {
    return Error{Code::kUnavailable,
                 fmt::format("gRPC: cannot listen on {}: the port is in use or the address is not "
                             "this machine's",
                             address)};
  }
  std::unique_ptr<GrpcServer> server(new GrpcServer(std::move(impl)));
  server->SetServing(false);
  return server;
}

GrpcServer::GrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

GrpcServer::~GrpcServer() {
  Shutdown(std::chrono::milliseconds(0));
}

int GrpcServer::port() const {
  return impl_->port;
}

void GrpcServer::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = impl_->server->GetHealthCheckService();
  for (const char* name : {"", "k3serve.v1.Inference", "k3serve.v1.Control"}) {
    health->SetServingStatus(name, serving);
  }
}

void GrpcServer::Shutdown(std::chrono::milliseconds grace) {
  impl_->server->Shutdown(std::chrono::system_clock::now() + grace);
}

}  // namespace k3::server
