#include "server/ctl/top_view.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "proto/k3serve/v1/control.pb.h"

namespace k3::server::ctl {
namespace {

namespace pb = k3serve::v1;

constexpr std::size_t kBarWidth = 30;
constexpr std::size_t kIdWidth = 36;  // those of `k3ctl bench` whole, for `k3ctl abort`

template <typename... Values>
std::string Format(const char* format, Values... values) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string Number(std::optional<double> value, const char* unit) {
  return value ? Format("%.1f%s", *value, unit) : "-";
}

// What grew between two snapshots, per second of the server's clock.
class Rates {
 public:
  Rates(const pb::LoadSnapshot& before, const pb::LoadSnapshot& now)
      : before_(before), now_(now), seconds_(now.uptime_seconds() - before.uptime_seconds()) {}

  std::optional<double> Of(std::uint64_t (pb::LoadSnapshot::*counter)() const) const {
    return Ratio(Growth(counter), seconds_);
  }
  std::optional<double> MeanStepMs() const {
    const auto steps = Growth(&pb::LoadSnapshot::steps_total);
    const double seconds = now_.step_seconds_total() - before_.step_seconds_total();
    return steps && *steps > 0 && seconds >= 0 ? std::optional(seconds / *steps * 1000)
                                               : std::nullopt;
  }

 private:
  // A counter that went back belongs to another life of the server.
  std::optional<double> Growth(std::uint64_t (pb::LoadSnapshot::*counter)() const) const {
    const std::uint64_t from = (before_.*counter)();
    const std::uint64_t to = (now_.*counter)();
    return to >= from ? std::optional(static_cast<double>(to - from)) : std::nullopt;
  }
  static std::optional<double> Ratio(std::optional<double> amount, double seconds) {
    return amount && seconds > 0 ? std::optional(*amount / seconds) : std::nullopt;
  }

  const pb::LoadSnapshot& before_;
  const pb::LoadSnapshot& now_;
  double seconds_;
};

std::string Duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, seconds));
  const std::string clock = Format("%02d:%02d:%02d", static_cast<int>(whole / 3600 % 24),
                                   static_cast<int>(whole / 60 % 60), static_cast<int>(whole % 60));
  const auto days = static_cast<long long>(whole / 86400);
  return days > 0 ? Format("%lld d ", days) + clock : clock;
}

std::string PagesLine(const pb::LoadSnapshot& now) {
  const std::uint64_t total = now.pages_total();
  const std::uint64_t used = total - std::min(total, now.pages_free());
  const double share = total > 0 ? static_cast<double>(used) / static_cast<double>(total) : 0;
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kBarWidth) + 0.5);
  return "pages     [" + std::string(filled, '#') + std::string(kBarWidth - filled, '.') +
         Format("] %llu of %llu used (%.1f %%)\n", static_cast<unsigned long long>(used),
                static_cast<unsigned long long>(total), share * 100);
}

std::string RatesLines(const Rates& rates) {
  using pb::LoadSnapshot;
  const auto rate = [&rates](auto counter, const char* unit) {
    return Number(rates.Of(counter), unit);
  };
  return "tokens    prompt " + rate(&LoadSnapshot::prompt_tokens_computed_total, "/s") +
         " computed, " + rate(&LoadSnapshot::prompt_tokens_cached_total, "/s") +
         " cached; generated " + rate(&LoadSnapshot::generation_tokens_total, "/s") +
         "; recomputed " + rate(&LoadSnapshot::recomputed_tokens_total, "/s") +
         "\n"
         "finished  " +
         rate(&LoadSnapshot::requests_finished_total, " requests/s") + "; preempted " +
         rate(&LoadSnapshot::preemptions_total, "/s") + "\n";
}

std::string StepLine(const Rates& rates, const pb::LoadSnapshot& now) {
  return "step      " + Number(rates.MeanStepMs(), " ms") + " mean, " +
         Number(rates.Of(&pb::LoadSnapshot::steps_total), "/s") +
         Format("; prefill rows %u; expert imbalance ", now.prefill_rows()) +
         (now.expert_load_imbalance() > 0 ? Format("%.2f", now.expert_load_imbalance()) : "-") +
         "\n";
}

// A client's words, in a column of this width.
std::string Column(std::string words, std::size_t width) {
  for (char& byte : words) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x20 || code >= 0x7f) byte = '?';
  }
  if (words.size() > width) words = words.substr(0, width - 1) + "~";
  words.resize(width, ' ');
  return words;
}

std::string RequestLines(const pb::LoadSnapshot& now) {
  if (now.requests().empty()) return "";
  std::string text = "\n" + Column("REQUEST", kIdWidth) +
                     "  STATE      PROMPT  GENERATED       AGE  PRIORITY  TENANT\n";
  for (const pb::RequestLoad& request : now.requests()) {
    text += Column(request.request_id(), kIdWidth) + "  " + Column(request.state(), 8) +
            Format(" %8u  %9u  %8s  %8d  ", request.prompt_tokens(), request.generated_tokens(),
                   Duration(request.age_seconds()).c_str(), request.priority()) +
            Column(request.tenant(), 12) + "\n";
  }
  return text;
}

std::string Clipped(const std::string& text, std::size_t width) {
  std::string clipped;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, std::min(end - at, width));
    while (line.ends_with(' ')) line.pop_back();
    clipped += line + "\n";
    at = end + 1;
  }
  return clipped;
}

}  // namespace

std::string TopView(const pb::LoadSnapshot& before, const pb::LoadSnapshot& now, int width) {
  const Rates rates(before, now);
  std::string text = "k3serve   up " + Duration(now.uptime_seconds()) + "\n";
  text += Format("requests  %u of %u running (%u paused), %u waiting with %llu tokens\n",
                 now.running(), now.max_num_seqs(), now.paused(), now.waiting(),
                 static_cast<unsigned long long>(now.waiting_tokens()));
  text += PagesLine(now) + RatesLines(rates) + StepLine(rates, now) + RequestLines(now);
  return Clipped(text, static_cast<std::size_t>(std::max(1, width)));
}

}  // namespace k3::server::ctl
