#include "server/grpc/generate_call.h"

#include <fmt/format.h>
#include <random>
#include <spdlog/spdlog.h>
#include <utility>

#include "server/grpc/byte_buffer.h"
#include "server/grpc/status.h"
#include "server/grpc/wire.h"

namespace k3::server {
namespace {

namespace pb = k3serve::v1;

// A client's own timer fires first, and its cancel may come a moment before our deadline.
constexpr std::chrono::milliseconds kDeadlineSlack{100};

std::string FreshRequestId() {
  std::random_device device;
  return fmt::format("gen-{:08x}{:08x}", device(), device());
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateCall::Start(
    const FrontEnd& front_end, grpc::CallbackServerContext& context,
    const grpc::ByteBuffer& request) {
  const std::shared_ptr<GenerateCall> call(new GenerateCall(front_end, context, request));
  call->self_ = call;
  call->Wake();
  return call.get();
}

GenerateCall::GenerateCall(const FrontEnd& front_end, grpc::CallbackServerContext& context,
                           const grpc::ByteBuffer& request)
    : front_end_(front_end), context_(context), request_(request) {
  front_end_.metrics.Received(Api::kGrpc);
}

void GenerateCall::OnWriteDone(bool ok) {
  if (!ok) CancelGeneration();
  writing_.store(false);
  Wake();
}

void GenerateCall::OnCancel() {
  CancelGeneration();
  Wake();
}

void GenerateCall::OnDone() {
  self_.reset();
}

void GenerateCall::CancelGeneration() {
  cancelled_.store(true);
  if (Generation* generation = published_.load()) generation->Cancel();
}

void GenerateCall::Wake() {
  if (marks_.fetch_add(1) == 0) {
    front_end_.pool.Post([self = shared_from_this()] { self->Run(); });
  }
}

void GenerateCall::Run() {
  int seen = 0;
  do {
    seen = marks_.load();
    Advance();
  } while (marks_.fetch_sub(seen) != seen);
}

void GenerateCall::Advance() {
  if (state_ == State::kDone) return;
  if (writing_.load()) return;
  if (state_ == State::kNew) Begin();
  if (state_ == State::kDone) return;
  // Dropped before the pull: a box that is left unread wakes nobody any more.
  if (cancelled_.load()) events_->Clear();
  if (state_ == State::kRunning && events_->empty()) Pull();
  if (cancelled_.load()) events_->Clear();
  if (!events_->empty()) {
    WriteNext();
  } else if (state_ == State::kEnding) {
    End();
  }
}

void GenerateCall::Begin() {
  if (cancelled_.load()) return EndCancelled();  // before anything was done for it
  if (const auto refusal = front_end_.lifecycle.Refusal()) return EndRefused(*refusal);
  const ServedModel& model = *front_end_.lifecycle.model();
  pb::GenerateRequest request;
  if (const auto error = ParseMessage(ToString(request_), request)) return EndRefused(*error);
  events_.emplace(request.request_id().empty() ? FreshRequestId() : request.request_id(),
                  request.output());
  const Clock::time_point begin = Clock::now();
  ApiResult<runtime::Request> admitted = Admit(model, ToAsk(request));
  if (request.has_text()) {
    front_end_.metrics.Tokenized(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  if (const auto* error = std::get_if<ApiError>(&admitted)) return EndRefused(*error);
  Submit(model, std::get<runtime::Request>(std::move(admitted)));
}

void GenerateCall::Submit(const ServedModel& model, runtime::Request request) {
  events_->Admitted(request);
  // Weak: the box holds its wake, and the call holds the box.
  generation_ =
      std::make_unique<Generation>(model, events_->want_text(), [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->Wake();
      });
  published_.store(generation_.get());
  if (cancelled_.load()) generation_->Cancel();
  const Result<Ok> submitted = generation_->Submit(std::move(request));
  if (!submitted.ok()) return EndRefused(FromEngine(submitted.error()));
  state_ = State::kRunning;
}

void GenerateCall::Pull() {
  GenerationStep step = generation_->Take();
  if (!step.tokens.empty() && !first_token_seen_) {
    first_token_seen_ = true;
    front_end_.metrics.FirstToken(Api::kGrpc, SecondsSinceArrival());
  }
  if (step.finished) {
    finished_ = step.finished;
    state_ = State::kEnding;
  }
  events_->Add(std::move(step));
}

void GenerateCall::WriteNext() {
  outgoing_ = ToBuffer(events_->Pop());
  writing_.store(true);
  StartWrite(&outgoing_);
}

void GenerateCall::End() {
  spdlog::debug("{}: {} prompt tokens, {} generated, {:.3f} s", events_->request_id(),
                finished_->usage.prompt_tokens, finished_->usage.completion_tokens,
                SecondsSinceArrival());
  if (cancelled_.load()) return EndCancelled();
  front_end_.metrics.Finished(Api::kGrpc, OutcomeOf(finished_->reason), SecondsSinceArrival());
  if (finished_->reason == runtime::FinishReason::kError) {
    FinishWith(Refuse(context_, {Code::kInternal, reason::kEngineError, finished_->error, {}}));
  } else {
    FinishWith(grpc::Status::OK);
  }
}

void GenerateCall::EndCancelled() {
  const bool late = context_.deadline() - kDeadlineSlack <= std::chrono::system_clock::now();
  front_end_.metrics.Finished(Api::kGrpc, late ? Outcome::kDeadline : Outcome::kAborted,
                              SecondsSinceArrival());
  FinishWith({late ? grpc::StatusCode::DEADLINE_EXCEEDED : grpc::StatusCode::CANCELLED,
              late ? "the deadline passed" : "the call was cancelled"});
}

void GenerateCall::EndRefused(const ApiError& error) {
  front_end_.metrics.Rejected(error);
  FinishWith(Refuse(context_, error));
}

void GenerateCall::FinishWith(const grpc::Status& status) {
  state_ = State::kDone;
  front_end_.metrics.GrpcDone(GrpcMethod::kGenerate, status.error_code());
  Finish(status);
}

double GenerateCall::SecondsSinceArrival() const {
  return std::chrono::duration<double>(Clock::now() - arrived_).count();
}

}  // namespace k3::server
