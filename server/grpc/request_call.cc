#include "server/grpc/request_call.h"

#include <fmt/format.h>
#include <random>
#include <utility>

#include "server/grpc/byte_buffer.h"
#include "server/grpc/status.h"
#include "server/grpc/wire.h"

namespace k3::server {
namespace {

namespace pb = k3serve::v1;
using runtime::FinishReason;

constexpr const char* kApiName = "grpc";
constexpr std::size_t kMaxRequestIdBytes = 256;  // it is kept, logged and listed
// A client's own timer fires first, and its cancel may come a moment before our deadline.
constexpr std::chrono::milliseconds kDeadlineSlack{100};
constexpr std::chrono::hours kForever{24 * 365};

std::string FreshRequestId() {
  std::random_device device;
  return fmt::format("gen-{:08x}{:08x}", device(), device());
}

}  // namespace

RequestCall::RequestCall(const FrontEnd& front_end, GrpcMethod method,
                         grpc::CallbackServerContext& context, const grpc::ByteBuffer& request)
    : front_end_(front_end), method_(method), context_(context), request_(request) {
  front_end_.metrics.Received(Api::kGrpc, method == GrpcMethod::kGenerate);
}

void RequestCall::Start() {
  self_ = shared_from_this();
  Wake();
}

void RequestCall::Cancelled() {
  cancelled_.store(true);
  CancelGeneration();
  Wake();
}

void RequestCall::CancelGeneration() {
  if (Generation* generation = published_.load()) generation->Cancel();
}

void RequestCall::Abort(const std::string& reason) {
  {
    const std::lock_guard lock(abort_mutex_);
    if (!abort_reason_) abort_reason_ = reason;
  }
  CancelGeneration();
}

void RequestCall::Wake() {
  if (marks_.fetch_add(1) == 0) {
    front_end_.pool.Post([self = shared_from_this()] { self->Run(); });
  }
}

void RequestCall::Run() {
  int seen = 0;
  do {
    seen = marks_.load();
    Advance();
  } while (marks_.fetch_sub(seen) != seen);
}

void RequestCall::Advance() {
  if (state_ == State::kDone || busy()) return;
  if (state_ == State::kNew) Admit();
  if (state_ == State::kDone) return;
  // Dropped before the pull: a box that is left unread wakes nobody any more.
  if (cancelled_.load()) DropUnwritten();
  if (WriteSome()) return;
  if (state_ == State::kRunning) Pull();
  if (cancelled_.load()) DropUnwritten();
  if (WriteSome()) return;
  if (state_ == State::kEnding) End();
}

void RequestCall::Admit() {
  if (cancelled_.load()) return EndCancelled();  // before anything was done for it
  if (const auto refusal = front_end_.lifecycle.Refusal()) return EndRefused(*refusal);
  const ServedModel& model = *front_end_.lifecycle.model();
  pb::GenerateRequest request;
  if (const auto error = ParseMessage(ToString(request_), request)) return EndRefused(*error);
  if (request.request_id().size() > kMaxRequestIdBytes) {
    return EndRefused({Code::kInvalidArgument,
                       reason::kInvalidRequestId,
                       fmt::format("request_id: {} bytes; expected at most {}",
                                   request.request_id().size(), kMaxRequestIdBytes),
                       {}});
  }
  request_id_ = request.request_id().empty() ? FreshRequestId() : request.request_id();
  Open(request_id_, request);
  Ask ask = ToAsk(request);
  ask.deadline = Deadline();
  const Clock::time_point begin = Clock::now();
  ApiResult<Admitted> admitted = server::Admit(model, ask, arrived_);
  if (request.has_text()) {
    front_end_.metrics.Tokenized(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  if (const auto* error = std::get_if<ApiError>(&admitted)) return EndRefused(*error);
  Submit(model, std::get<Admitted>(std::move(admitted)));
}

std::optional<RequestCall::Clock::time_point> RequestCall::Deadline() const {
  const auto left = context_.deadline() - std::chrono::system_clock::now();
  if (left > kForever) return std::nullopt;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
}

void RequestCall::Submit(const ServedModel& model, Admitted admitted) {
  Begin(admitted);
  const runtime::Request& request = admitted.request;
  // Weak, both: the boxes hold the wake and the call holds the boxes; an abort may come too late.
  const auto weak = weak_from_this();
  entry_ = front_end_.calls.Add({.request_id = request_id_,
                                 .tenant = request.tenant,
                                 .priority = request.priority,
                                 .prompt_tokens = static_cast<int>(request.prompt.size())},
                                [weak](const std::string& reason) {
                                  if (const auto self = weak.lock()) self->Abort(reason);
                                });
  generation_ = std::make_unique<Generation>(model, want_text(), [weak] {
    if (const auto self = weak.lock()) self->Wake();
  });
  published_.store(generation_.get());
  if (cancelled_.load()) generation_->Cancel();
  front_end_.log.Admitted(request_id_, kApiName, admitted);
  if (const auto refusal = generation_->Submit(std::move(admitted))) {
    return EndRefused(FromEngine(*refusal));
  }
  state_ = State::kRunning;
}

void RequestCall::Pull() {
  for (GenerationStep& step : generation_->Take()) {
    Note(step);
    Add(std::move(step));
  }
  if (generation_->done()) state_ = State::kEnding;
}

void RequestCall::Note(const GenerationStep& step) {
  if (step.started) entry_->state.store(CallState::kRunning);
  if (!step.tokens.empty() && !first_token_seen_) {
    first_token_seen_ = true;
    front_end_.metrics.FirstToken(Api::kGrpc, SecondsSinceArrival());
  }
  entry_->generated.fetch_add(static_cast<int>(step.tokens.size()));
  if (!step.finished) return;
  completion_tokens_ += step.finished->usage.completion_tokens;
  const bool failed = FailureOf(*step.finished).has_value();
  if (!finished_ || (failed && !FailureOf(*finished_))) finished_ = step.finished;
  if (failed)
    generation_->Cancel();  // the call ends in a status: nobody will see the other choices
}

std::optional<ApiError> RequestCall::FailureOf(const runtime::Finished& finished) const {
  switch (finished.reason) {
    case FinishReason::kError:
      return ApiError{Code::kInternal, reason::kEngineError, finished.error, {}};
    case FinishReason::kSlowClient:
      return ApiError{Code::kResourceExhausted,
                      reason::kSlowClient,
                      "the client did not read for too long (--slow-client-timeout)",
                      {}};
    case FinishReason::kDeadline: {
      const bool own = Deadline() && *Deadline() <= Clock::now() + kDeadlineSlack;
      return ApiError{Code::kDeadlineExceeded,
                      own ? reason::kDeadline : reason::kQueueTimeout,
                      own ? "the deadline passed" : "not started within queue_timeout_ms",
                      {}};
    }
    default:
      return std::nullopt;
  }
}

void RequestCall::End() {
  if (cancelled_.load()) return EndCancelled();
  const std::optional<ApiError> failure = FailureOf(*finished_);
  const Outcome outcome = OutcomeOf(finished_->reason);
  if (finished_->reason == FinishReason::kSlowClient) front_end_.metrics.SlowClient(Api::kGrpc);
  if (failure) return EndWith(Refuse(context_, *failure), outcome);
  const std::lock_guard lock(abort_mutex_);
  if (finished_->reason == FinishReason::kAborted && abort_reason_) {
    const std::string words = abort_reason_->empty() ? "aborted by an operator" : *abort_reason_;
    return EndWith(Refuse(context_, {Code::kCancelled, reason::kAborted, words, {}}), outcome);
  }
  EndWith(grpc::Status::OK, outcome);
}

void RequestCall::EndCancelled() {
  const bool late = context_.deadline() - kDeadlineSlack <= std::chrono::system_clock::now();
  if (!late) front_end_.metrics.Disconnected(Api::kGrpc);
  EndWith({late ? grpc::StatusCode::DEADLINE_EXCEEDED : grpc::StatusCode::CANCELLED,
           late ? "the deadline passed" : "the call was cancelled"},
          late ? Outcome::kDeadline : Outcome::kAborted);
}

void RequestCall::EndRefused(const ApiError& error) {
  front_end_.metrics.Rejected(error);
  front_end_.log.Refused(request_id_, kApiName, error);
  Leave(Refuse(context_, error));
}

void RequestCall::EndWith(const grpc::Status& status, Outcome outcome) {
  const double seconds = SecondsSinceArrival();
  front_end_.metrics.Finished(Api::kGrpc, outcome, seconds);
  RequestLog::End end{.status = GrpcCodeName(status.error_code()),
                      .finish = NameOf(outcome),
                      .completion_tokens = completion_tokens_,
                      .total_seconds = seconds};
  if (finished_) {
    end.cached_tokens = finished_->usage.cached_tokens;
    end.timings = finished_->timings;
  }
  front_end_.log.Ended(request_id_, kApiName, end);
  Leave(status);
}

void RequestCall::Leave(const grpc::Status& status) {
  state_ = State::kDone;
  entry_ = {};
  front_end_.metrics.GrpcDone(method_, status.error_code());
  FinishCall(status);
}

double RequestCall::SecondsSinceArrival() const {
  return std::chrono::duration<double>(Clock::now() - arrived_).count();
}

}  // namespace k3::server
