// One Generate call. gRPC's callbacks, the engine's wake-ups and the cancel only leave a mark and
// ask for a run on a text thread; all state belongs to that run.
//   1. Never two runs at once; a mark left during a run causes another one.
//   2. At most one write is outstanding; meanwhile tokens gather in the outbox and become one
//   delta.
//   3. Finish comes only after the engine's Finished was taken (engine.h, law 2), or when there is
//      none to come.
//   4. The engine hears of a cancel from OnCancel itself: no queue, no write stands before it.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "server/front_end.h"
#include "server/grpc/event_stream.h"

namespace k3::server {

class GenerateCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                           public std::enable_shared_from_this<GenerateCall> {
 public:
  // The call keeps itself alive until gRPC is done with it.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(const FrontEnd& front_end,
                                                           grpc::CallbackServerContext& context,
                                                           const grpc::ByteBuffer& request);

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t { kNew, kRunning, kEnding, kDone };

  GenerateCall(const FrontEnd& front_end, grpc::CallbackServerContext& context,
               const grpc::ByteBuffer& request);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Wake();  // any thread
  void Run();   // text thread, as all below
  void Advance();
  void Begin();
  void Submit(const ServedModel& model, runtime::Request request);
  void Pull();
  void WriteNext();
  void End();
  void EndCancelled();
  void EndRefused(const ApiError& error);
  void FinishWith(const grpc::Status& status);
  void CancelGeneration();
  double SecondsSinceArrival() const;

  FrontEnd front_end_;
  grpc::CallbackServerContext& context_;
  const grpc::ByteBuffer& request_;
  const Clock::time_point arrived_ = Clock::now();
  std::shared_ptr<GenerateCall> self_;  // until OnDone

  std::atomic<int> marks_{0};
  std::atomic<bool> writing_{false};
  std::atomic<bool> cancelled_{false};
  std::atomic<Generation*> published_{nullptr};  // generation_, for OnCancel

  // A run's own.
  State state_ = State::kNew;
  std::optional<EventStream> events_;
  std::unique_ptr<Generation> generation_;
  std::optional<runtime::Finished> finished_;
  bool first_token_seen_ = false;
  grpc::ByteBuffer outgoing_;
};

}  // namespace k3::server
