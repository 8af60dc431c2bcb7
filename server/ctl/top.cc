#include "server/ctl/top.h"

#include <cmath>
#include <csignal>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

#include "proto/k3serve/v1/control.pb.h"
#include "server/ctl/message_json.h"
#include "server/ctl/remote.h"
#include "server/ctl/top_view.h"
#include "server/exit_codes.h"

namespace k3::server::ctl {
namespace {

constexpr int kPlainWidth = 120;
constexpr double kLongestInterval = 86400;

// SIGINT and SIGTERM, taken by waiting for them: no handler. Made before any thread, so that all
// threads inherit the blocked mask.
class Stop {
 public:
  Stop() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~Stop() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;

  bool Within(double seconds) const {
    double whole = 0;
    const double part = std::modf(seconds, &whole);
    const timespec limit{static_cast<time_t>(whole), static_cast<long>(part * 1e9)};
    return sigtimedwait(&set_, nullptr, &limit) > 0;
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

// The terminal's other screen, without a cursor; what was there comes back.
class Screen {
 public:
  explicit Screen(bool on_terminal) : on_terminal_(on_terminal) {
    Write(on_terminal_ ? "\x1b[?1049h\x1b[?25l" : "");
  }
  ~Screen() { Write(on_terminal_ ? "\x1b[?25h\x1b[?1049l" : ""); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void Draw(const std::string& text) const {
    if (!on_terminal_) return Write(text + "\n");
    std::string drawn = "\x1b[H";
    for (const char byte : text)
      drawn += byte == '\n' ? std::string("\x1b[K\n") : std::string(1, byte);
    Write(drawn + "\x1b[J");
  }

  int width() const {
    winsize size{};
    const bool known = on_terminal_ && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    return known && size.ws_col > 0 ? size.ws_col : kPlainWidth;
  }

 private:
  static void Write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  bool on_terminal_;
};

class Watch {
 public:
  explicit Watch(const TopCommand& command) : command_(command), remote_(command.server) {}

  int Json(const Stop& stop) {
    do {
      const Outcome outcome = Look();
      if (!outcome.ok()) return Report(outcome);
      std::puts(ToJsonLine(now_).c_str());
      std::fflush(stdout);
    } while (!command_.once && !stop.Within(command_.interval_seconds));
    return 0;
  }

  int Once(const Stop& stop) {
    Outcome outcome = Look();
    if (outcome.ok() && !stop.Within(command_.interval_seconds)) outcome = Look();
    if (outcome.ok()) std::fputs(TopView(before_, now_, kPlainWidth).c_str(), stdout);
    return Report(outcome);
  }

  int Live(const Stop& stop) {
    const Outcome outcome = LiveUntil(stop);  // its screen is gone before a fault is told
    return Report(outcome);
  }

 private:
  Outcome LiveUntil(const Stop& stop) {
    Outcome outcome = Look();  // a server that is not there needs no screen
    if (!outcome.ok()) return outcome;
    const Screen screen(isatty(STDOUT_FILENO) == 1);
    while (outcome.ok()) {
      screen.Draw(TopView(before_, now_, screen.width()));
      if (stop.Within(command_.interval_seconds)) break;
      outcome = Look();
    }
    return outcome;
  }

  Outcome Look() {
    pb::GetLoadsRequest request;
    request.set_max_requests(command_.requests);
    pb::LoadSnapshot seen;
    const Outcome outcome = remote_.GetLoads(request, seen);
    if (outcome.ok()) {
      before_ = first_ ? seen : now_;
      now_ = seen;
      first_ = false;
    }
    return outcome;
  }

  const TopCommand& command_;
  Remote remote_;
  pb::LoadSnapshot before_;
  pb::LoadSnapshot now_;
  bool first_ = true;
};

}  // namespace

int Top(const TopCommand& command) {
  if (!(command.interval_seconds > 0 && command.interval_seconds <= kLongestInterval)) {
    std::fputs("k3ctl: --interval: more than 0 seconds, at most a day\n", stderr);
    return kExitUsage;
  }
  const Stop stop;
  Watch watch(command);
  if (command.json) return watch.Json(stop);
  return command.once ? watch.Once(stop) : watch.Live(stop);
}

}  // namespace k3::server::ctl
