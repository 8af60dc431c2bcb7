// One Generate or Complete call. gRPC's callbacks, the engine's wake-ups and cancels only leave a
// mark and ask for a run on a text thread; all state belongs to that run.
//   1. Never two runs at once; a mark left during a run causes another one.
//   2. Nothing is taken from the engine while the surface is busy writing; meanwhile tokens gather
//   in
//      the outboxes and become one delta, or the engine pauses the sequence.
//   3. The call is finished only after every Finished was taken (generation.h, law 2), or when
//   there
//      is none to come.
//   4. The engine hears of a cancel from OnCancel itself: no queue, no write stands before it.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "proto/k3serve/v1/inference.pb.h"
#include "server/front_end.h"
#include "server/generation.h"

namespace k3::server {

class RequestCall : public std::enable_shared_from_this<RequestCall> {
 public:
  virtual ~RequestCall() = default;

 protected:
  RequestCall(const FrontEnd& front_end, GrpcMethod method, grpc::CallbackServerContext& context,
              const grpc::ByteBuffer& request);

  // What a surface does, all in a run.
  virtual void Open(const std::string& request_id, const k3serve::v1::GenerateRequest& request) = 0;
  virtual bool want_text() const = 0;
  virtual void Begin(const Admitted& admitted) = 0;
  virtual void Add(GenerationStep step) = 0;
  virtual bool busy() const = 0;     // a write is outstanding
  virtual bool WriteSome() = 0;      // false: nothing to write
  virtual void DropUnwritten() = 0;  // nobody will read it
  virtual void FinishCall(const grpc::Status& status) = 0;

  // What gRPC tells. Any thread.
  void Start();  // once, with the call owned by a shared_ptr; it keeps itself alive until Done
  void Wake();
  void Cancelled();
  void Done() { self_.reset(); }

  const FrontEnd& front_end() const { return front_end_; }
  const runtime::Vocabulary& vocabulary() const {  // from Open on
    return front_end_.lifecycle.model()->tokenizer.vocabulary();
  }

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t { kNew, kRunning, kEnding, kDone };

  void Run();
  void Advance();
  void Admit();
  void Submit(const ServedModel& model, Admitted admitted);
  void Pull();
  void Note(const GenerationStep& step);
  void End();
  void EndCancelled();
  void EndRefused(const ApiError& error);
  void EndWith(const grpc::Status& status, Outcome outcome);
  void Leave(const grpc::Status& status);
  void CancelGeneration();
  void Abort(const std::string& reason);
  std::optional<ApiError> FailureOf(const runtime::Finished& finished) const;
  std::optional<Clock::time_point> Deadline() const;
  double SecondsSinceArrival() const;

  FrontEnd front_end_;
  GrpcMethod method_;
  grpc::CallbackServerContext& context_;
  const grpc::ByteBuffer& request_;
  const Clock::time_point arrived_ = Clock::now();
  std::shared_ptr<RequestCall> self_;

  std::atomic<int> marks_{0};
  std::atomic<bool> cancelled_{false};
  std::atomic<Generation*> published_{nullptr};  // generation_, for OnCancel
  std::mutex abort_mutex_;
  std::optional<std::string> abort_reason_;  // an operator's; guarded by abort_mutex_

  // A run's own.
  State state_ = State::kNew;
  std::string request_id_;
  std::unique_ptr<Generation> generation_;
  CallRegistry::Entry entry_;
  std::optional<runtime::Finished> finished_;  // the first failed one, else the first
  int completion_tokens_ = 0;
  bool first_token_seen_ = false;
};

}  // namespace k3::server
