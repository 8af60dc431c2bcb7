// Where one request's output waits for its consumer: the engine thread puts, one consumer takes.
//   1. Exactly one Finished comes, last; the engine never touches the box after putting it.
//   2. The box is bounded: the engine pauses a sequence whose reader is too far behind.
//   3. `wake` is called on the engine thread when something lies in a box that was empty. It must
//      be quick, must not call back into the engine, and must own whatever it touches: it may still
//      run when the consumer has already taken the Finished and destroyed the box.
#pragma once
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/schedule/request.h"

namespace k3::runtime {

class Outbox {
 public:
  struct Batch {
    std::optional<Started> started;
    std::vector<Token> tokens;
    std::vector<Logprobs> logprobs;  // one per token when asked for, else none
    std::optional<Finished> finished;
    bool empty() const { return !started && tokens.empty() && !finished; }
  };

  explicit Outbox(std::function<void()> wake) : wake_(std::move(wake)) {}
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  Batch Take();  // everything since the last Take, in order; may be empty

  // Engine thread, likewise below.
  void Put(const Started& started);
  int Put(NewToken token);  // how many tokens lie here now
  void Put(const Finished& finished);
  int num_unread();  // tokens

 private:
  template <typename Change>
  void Add(const Change& change);

  std::function<void()> wake_;
  std::mutex mutex_;
  Batch waiting_;  // guarded by mutex_
};

}  // namespace k3::runtime
