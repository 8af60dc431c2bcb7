#include "server/grpc/usage_sum.h"

#include <algorithm>

#include "proto/k3serve/v1/inference.pb.h"

namespace k3::server {
namespace {

constexpr double kMsPerSecond = 1000;

std::uint32_t Unsigned(int value) {
  return static_cast<std::uint32_t>(value);
}

}  // namespace

void UsageSum::Add(const runtime::Finished& finished) {
  const runtime::Timings& more = finished.timings;
  usage_.completion_tokens += finished.usage.completion_tokens;
  if (finished.usage.completion_tokens > 1) {
    decode_ += more.last - more.ttft;
    gaps_ += finished.usage.completion_tokens - 1;
  }
  const bool first_came_sooner = more.ttft > 0 && (timings_.ttft == 0 || more.ttft < timings_.ttft);
  if (!any_ || first_came_sooner) {
    timings_.queue = more.queue;
    timings_.ttft = more.ttft;
  }
  if (!any_) {
    usage_.prompt_tokens = finished.usage.prompt_tokens;
    usage_.cached_tokens = finished.usage.cached_tokens;
    any_ = true;
  }
  timings_.last = std::max(timings_.last, more.last);
  timings_.total = std::max(timings_.total, more.total);
  timings_.max_inter_token = std::max(timings_.max_inter_token, more.max_inter_token);
  timings_.preemptions += more.preemptions;
  timings_.recomputed_tokens += more.recomputed_tokens;
}

void UsageSum::Fill(k3serve::v1::Usage& usage, k3serve::v1::Timings& timings) const {
  usage.set_prompt_tokens(Unsigned(usage_.prompt_tokens));
  usage.set_completion_tokens(Unsigned(usage_.completion_tokens));
  usage.set_total_tokens(usage.prompt_tokens() + usage.completion_tokens());
  usage.set_cached_tokens(Unsigned(usage_.cached_tokens));
  timings.set_queue_ms(timings_.queue * kMsPerSecond);
  timings.set_e2e_ms(timings_.total * kMsPerSecond);
  timings.set_preemptions(Unsigned(timings_.preemptions));
  timings.set_recomputed_tokens(Unsigned(timings_.recomputed_tokens));
  if (timings_.ttft <= 0) return;
  timings.set_ttft_ms(timings_.ttft * kMsPerSecond);
  timings.set_prefill_ms((timings_.ttft - timings_.queue) * kMsPerSecond);
  timings.set_decode_ms((timings_.last - timings_.ttft) * kMsPerSecond);
  timings.set_max_inter_token_ms(timings_.max_inter_token * kMsPerSecond);
  if (gaps_ > 0) timings.set_mean_inter_token_ms(decode_ / gaps_ * kMsPerSecond);
}

}  // namespace k3::server
