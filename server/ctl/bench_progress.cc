#include "server/ctl/bench_progress.h"

#include <array>
#include <cstdio>
#include <unistd.h>

namespace k3::server::ctl {
namespace {

constexpr int kBarWidth = 24;
constexpr std::chrono::milliseconds kRedraw{200};
constexpr std::chrono::seconds kNewLine{5};

}  // namespace

std::string ProgressLine(const BenchProgress& progress, bool with_bar) {
  std::string line;
  if (with_bar) {
    const int done = progress.total > 0 ? kBarWidth * progress.finished / progress.total : 0;
    line = "[" + std::string(static_cast<std::size_t>(done), '#') +
           std::string(static_cast<std::size_t>(kBarWidth - done), '.') + "] ";
  }
  const double per_second =
      progress.seconds > 0 ? static_cast<double>(progress.output_tokens) / progress.seconds : 0;
  std::array<char, 160> rest{};
  std::snprintf(rest.data(), rest.size(),
                "%d/%d done, %d failed, %d in flight, %.1f output tokens/s, %.0f s",
                progress.finished, progress.total, progress.failed, progress.in_flight, per_second,
                progress.seconds);
  return line + rest.data();
}

ProgressView::ProgressView() : terminal_(isatty(STDERR_FILENO) == 1) {
  if (!terminal_) next_ += kNewLine;  // a short run says nothing but its result
}

void ProgressView::Show(const BenchProgress& progress, Clock::time_point now) {
  if (now < next_) return;
  if (terminal_) {
    std::fprintf(stderr, "\r%s\x1b[K", ProgressLine(progress, true).c_str());
    next_ = now + kRedraw;
  } else {
    std::fprintf(stderr, "%s\n", ProgressLine(progress, false).c_str());
    next_ = now + kNewLine;
  }
}

void ProgressView::End(const BenchProgress& progress) {
  if (terminal_) std::fprintf(stderr, "\r%s\x1b[K\n", ProgressLine(progress, true).c_str());
}

}  // namespace k3::server::ctl
