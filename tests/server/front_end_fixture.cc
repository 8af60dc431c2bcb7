#include "tests/server/front_end_fixture.h"

#include <algorithm>
#include <arpa/inet.h>
#include <future>
#include <netinet/in.h>
#include <sstream>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include "server/grpc/byte_buffer.h"
#include "server/http/routes.h"

namespace k3::server::testing {
namespace {

constexpr const char* kTokenizerDir = "runtime/weights/make/tokenizer";

std::string Trailing(const grpc::ClientContext& context, const char* key) {
  const auto& all = context.GetServerTrailingMetadata();
  const auto found = all.find(key);
  return found == all.end() ? "" : std::string(found->second.data(), found->second.size());
}

grpc::ByteBuffer ToBytes(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

}  // namespace

std::string Collected::text() const {
  std::string all;
  for (const pb::GenerateEvent& event : events) {
    all += event.delta().text() + event.finished().text();
  }
  return all;
}

pb::GenerateRequest TextRequest(const std::string& text) {
  pb::GenerateRequest request;
  request.set_text(text);
  return request;
}

FrontEndTest::FrontEndTest()
    : metrics_(lifecycle_, "test-model", true),
      log_(RequestLog::Mode::kOff),
      program_{
          .settings = {{"max-num-seqs", "4", "default"}},
          .drain = [this](std::optional<std::chrono::seconds> timeout) { drained_ = timeout; }},
      pool_(2) {
  auto http = HttpServer::Start({"127.0.0.1", 0}, MakeRoutes(lifecycle_, metrics_));
  auto grpc = GrpcServer::Start({"127.0.0.1", 0, 1 << 20},
                                {lifecycle_, metrics_, pool_, calls_, log_, program_});
  K3_CHECK(http.ok());
  K3_CHECK(grpc.ok());
  http_ = std::move(http).value();
  grpc_ = std::move(grpc).value();
  channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(grpc_->port()),
                                 grpc::InsecureChannelCredentials());
  stub_ = pb::Inference::NewStub(channel_);
  control_ = pb::Control::NewStub(channel_);
}

FrontEndTest::~FrontEndTest() {
  if (model_ != nullptr) model_->engine->Stop();
  grpc_->Shutdown(std::chrono::milliseconds(500));
}

void FrontEndTest::BecomeReady() {
  auto tokenizer = runtime::Tokenizer::Load(kTokenizerDir);
  K3_CHECK(tokenizer.ok());
  auto engine = std::make_unique<FakeEngine>();
  engine_ = engine.get();
  ModelFacts facts;
  facts.names = {"test-model", "other-name"};
  facts.fingerprint = "0123";
  facts.eos_ids = {1, 2};
  model_ = std::make_unique<ServedModel>(
      ServedModel{facts, std::move(tokenizer).value(), std::move(engine)});
  lifecycle_.Ready(model_.get());
  grpc_->SetServing(true);
}

void FrontEndTest::Drain() {
  lifecycle_.Drain();
  grpc_->SetServing(false);
}

Collected FrontEndTest::Generate(const pb::GenerateRequest& request) {
  grpc::ClientContext context;
  Collected collected;
  const auto reader = stub_->Generate(&context, request);
  pb::GenerateEvent event;
  while (reader->Read(&event)) collected.events.push_back(event);
  collected.status = reader->Finish();
  collected.reason = Trailing(context, "k3-error-reason");
  collected.retry_after = Trailing(context, "retry-after-ms");
  return collected;
}

Collected FrontEndTest::GenerateBytes(const std::string& bytes) {
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  const grpc::ByteBuffer request = ToBytes(bytes);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, "/k3serve.v1.Inference/Generate", grpc::StubOptions(), &request,
                 &response, [&done](const grpc::Status& status) { done.set_value(status); });
  Collected collected;
  collected.status = done.get_future().get();
  collected.reason = Trailing(context, "k3-error-reason");
  return collected;
}

double FrontEndTest::Metric(const std::string& name, const Labels& labels) const {
  std::istringstream lines(Metrics());
  double sum = -1;
  for (std::string line; std::getline(lines, line);) {
    bool matches = line.rfind(name + "{", 0) == 0;
    for (const auto& [key, value] : labels) {
      std::string wanted = key;
      wanted.append("=\"").append(value).append("\"");
      matches = matches && line.find(wanted) != std::string::npos;
    }
    if (matches) sum = std::max(sum, 0.0) + std::stod(line.substr(line.rfind(' ') + 1));
  }
  return sum;
}

bool FrontEndTest::MetricBecomes(const std::string& name, const Labels& labels,
                                 double value) const {
  for (int i = 0; i < 500; ++i) {
    if (Metric(name, labels) == value) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::string FrontEndTest::Http(const std::string& request) const {
  const int peer = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(http_->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  K3_CHECK(connect(peer, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  std::size_t sent = 0;
  while (sent < request.size()) {
    const ssize_t n = send(peer, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;  // the server has answered and closed
    sent += static_cast<std::size_t>(n);
  }
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = recv(peer, buffer, sizeof(buffer), 0)) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(n));
  }
  close(peer);
  return answer;
}

std::string FrontEndTest::HttpGet(const std::string& path) const {
  return Http("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

int FrontEndTest::HealthOf(const std::string& service) const {
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  std::string bytes;
  if (!service.empty())
    bytes = "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
  const grpc::ByteBuffer request = ToBytes(bytes);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&done](const grpc::Status& status) { done.set_value(status); });
  const grpc::Status status = done.get_future().get();
  return status.ok() ? ToString(response).back() : -status.error_code();
}

std::vector<runtime::Token> FrontEndTest::Ids(const std::string& text) const {
  return model_->tokenizer.Encode(text);
}

}  // namespace k3::server::testing
