#include "tests/server/ctl_fake_server.h"

#include <atomic>
#include <mutex>
#include <thread>

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "proto/k3serve/v1/control.grpc.pb.h"
#include "proto/k3serve/v1/inference.grpc.pb.h"

namespace k3::server::ctl {
namespace {

namespace pb = k3serve::v1;
using grpc::ServerContext;
using grpc::Status;

constexpr std::uint32_t kVocabSize = 50;
constexpr std::uint32_t kEos = 7;

using Writer = grpc::ServerWriter<pb::GenerateEvent>;

void WriteDelta(Writer& writer, std::uint32_t index, const std::string& text,
                std::uint32_t tokens) {
  pb::GenerateEvent event;
  event.mutable_delta()->set_index(index);
  event.mutable_delta()->set_text(text);
  event.mutable_delta()->set_num_tokens(tokens);
  writer.Write(event);
}

void WriteFinished(Writer& writer, std::uint32_t index, pb::FinishReason reason) {
  pb::GenerateEvent event;
  event.mutable_finished()->set_index(index);
  event.mutable_finished()->set_reason(reason);
  event.mutable_finished()->set_text("!");
  writer.Write(event);
}

class ScriptedInference final : public pb::Inference::Service {
 public:
  Status Generate(ServerContext* context, const pb::GenerateRequest* request,
                  Writer* writer) override {
    const int now = ++running_;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) continue;
    for (const std::uint32_t id : request->token_ids().ids()) {
      if (id >= kVocabSize || id == kEos) ++wrong_ids;
    }
    Status status = Answer(*context, *request, *writer);
    --running_;
    return status;
  }

  Status Complete(ServerContext*, const pb::GenerateRequest* request,
                  pb::GenerateResult* result) override {
    pb::Choice& choice = *result->add_choices();
    choice.set_text("all of " + request->text());
    choice.set_reason(pb::FINISH_REASON_STOP_EOS);
    result->mutable_usage()->set_completion_tokens(8);
    return Status::OK;
  }

  std::atomic<int> most{0};  // in flight at once
  std::atomic<int> wrong_ids{0};

 private:
  static Status Answer(ServerContext& context, const pb::GenerateRequest& request, Writer& writer) {
    if (request.text() == "full") {
      context.AddTrailingMetadata("k3-error-reason", "QUEUE_FULL");
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full"};
    }
    if (request.text() == "hang") {
      while (!context.IsCancelled()) std::this_thread::sleep_for(kFakePause);
      return Status::CANCELLED;
    }
    pb::GenerateEvent started;
    started.mutable_started()->set_prompt_tokens(
        request.has_token_ids() ? static_cast<std::uint32_t>(request.token_ids().ids_size()) : 10);
    writer.Write(started);
    if (request.text() == "none") return Status::OK;
    request.sampling().n() == 2 ? TwoChoices(writer) : FiveTokens(writer);
    if (request.text() == "aborted") WriteFinished(writer, 0, pb::FINISH_REASON_ABORTED);
    pb::GenerateEvent completed;
    completed.mutable_completed()->mutable_usage()->set_completion_tokens(5);
    writer.Write(completed);
    return Status::OK;
  }

  static void FiveTokens(Writer& writer) {
    for (const std::uint32_t tokens : {2U, 1U, 0U, 1U, 1U}) {
      std::this_thread::sleep_for(kFakePause);
      WriteDelta(writer, 0, "x", tokens);
    }
  }

  static void TwoChoices(Writer& writer) {
    WriteDelta(writer, 0, "a", 1);
    WriteDelta(writer, 1, "1", 1);
    WriteDelta(writer, 0, "b", 1);
    WriteFinished(writer, 1, pb::FINISH_REASON_STOP_EOS);
    WriteDelta(writer, 0, "c", 1);
    WriteFinished(writer, 0, pb::FINISH_REASON_LENGTH_MAX_TOKENS);
  }

  std::atomic<int> running_{0};
};

class ScriptedControl final : public pb::Control::Service {
 public:
  Status GetModelInfo(ServerContext*, const pb::GetModelInfoRequest*,
                      pb::ModelInfo* info) override {
    info->add_names("scripted");
    info->set_vocab_size(kVocabSize);
    info->set_max_model_len(100);
    info->add_eos_token_ids(kEos);
    return Status::OK;
  }

  Status GetLoads(ServerContext*, const pb::GetLoadsRequest*, pb::LoadSnapshot* load) override {
    const int look = ++looks;
    load->set_uptime_seconds(2.0 * look);
    load->set_generation_tokens_total(50 * static_cast<std::uint64_t>(look));
    return Status::OK;
  }

  Status Abort(ServerContext*, const pb::AbortRequest* request,
               pb::AbortResponse* response) override {
    response->set_aborted(3);
    return Remember(request->ShortDebugString());
  }

  Status Drain(ServerContext*, const pb::DrainRequest* request,
               pb::DrainResponse* response) override {
    response->set_running(2);
    return Remember(request->ShortDebugString());
  }

  std::string last() {
    const std::lock_guard lock(mutex_);
    return last_;
  }
  std::atomic<int> looks{0};

 private:
  Status Remember(std::string request) {
    const std::lock_guard lock(mutex_);
    last_ = std::move(request);
    return Status::OK;
  }

  std::mutex mutex_;
  std::string last_;
};

}  // namespace

struct FakeServer::Services {
  ScriptedInference inference;
  ScriptedControl control;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

FakeServer::FakeServer() : services_(std::make_unique<Services>()) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &services_->port);
  builder.RegisterService(&services_->inference);
  builder.RegisterService(&services_->control);
  services_->server = builder.BuildAndStart();
}

FakeServer::~FakeServer() {
  services_->server->Shutdown(std::chrono::system_clock::now());
}

std::string FakeServer::address() const {
  return "127.0.0.1:" + std::to_string(services_->port);
}

void FakeServer::SetServing(const std::string& service, bool serving) {
  services_->server->GetHealthCheckService()->SetServingStatus(service, serving);
}

int FakeServer::most_in_flight() const {
  return services_->inference.most;
}
int FakeServer::wrong_ids() const {
  return services_->inference.wrong_ids;
}
int FakeServer::looks() const {
  return services_->control.looks;
}
std::string FakeServer::last_control() const {
  return services_->control.last();
}

}  // namespace k3::server::ctl
