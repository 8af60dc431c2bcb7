// A k3serve that answers by script, on a port of its own: k3ctl is tested over a real channel.
//   1. The prompt's text says how it is answered: "full" is refused with QUEUE_FULL, "hang" waits
//   for
//      the cancel, "none" ends without Completed, "aborted" as a server that shuts down. Anything
//      else, ids too, gets 5 tokens in 4 deltas and one delta without, kFakePause before each; with
//      n = 2 two choices, mixed.
//   2. GetLoads: each look is 2 s and 50 tokens after the one before.
#pragma once
#include <chrono>
#include <memory>
#include <string>

namespace k3::server::ctl {

inline constexpr std::chrono::milliseconds kFakePause{10};

class FakeServer {
 public:
  FakeServer();
  ~FakeServer();

  std::string address() const;
  void SetServing(const std::string& service, bool serving);

  // What came, so far.
  int most_in_flight() const;
  int wrong_ids() const;  // beyond the vocabulary, or its eos
  int looks() const;
  std::string last_control() const;  // request of Abort or Drain, as text

 private:
  struct Services;
  std::unique_ptr<Services> services_;
};

}  // namespace k3::server::ctl
