// How far a benchmark is, on stderr: a bar that redraws itself on a terminal, a line every few
// seconds elsewhere. One thread.
#pragma once
#include <chrono>
#include <string>

namespace k3::server::ctl {

struct BenchProgress {
  int total = 0;
  int finished = 0;  // well or not
  int failed = 0;
  int in_flight = 0;
  std::uint64_t output_tokens = 0;  // of the finished ones
  double seconds = 0;
};

std::string ProgressLine(const BenchProgress& progress, bool with_bar);

class ProgressView {
 public:
  using Clock = std::chrono::steady_clock;

  ProgressView();  // looks whether stderr is a terminal

  Clock::time_point next() const { return next_; }  // when Show has something to do again
  void Show(const BenchProgress& progress, Clock::time_point now);
  void End(const BenchProgress& progress);

 private:
  bool terminal_;
  Clock::time_point next_ = Clock::now();
};

}  // namespace k3::server::ctl
