#include "server/ctl/choice_text.h"

#include <array>
#include <cstdio>

#include "proto/k3serve/v1/inference.pb.h"

namespace k3::server::ctl {
namespace {

namespace pb = k3serve::v1;

template <typename... Values>
std::string Format(const char* format, Values... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

// Length of the character that starts at `at`; 0 where none does, or it is cut short.
std::size_t CharacterSize(const std::string& bytes, std::size_t at) {
  const auto first = static_cast<unsigned char>(bytes[at]);
  const std::size_t size = first < 0x80   ? 1
                           : first < 0xc2 ? 0
                           : first < 0xe0 ? 2
                           : first < 0xf0 ? 3
                           : first < 0xf5 ? 4
                                          : 0;
  if (at + size > bytes.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((static_cast<unsigned char>(bytes[at + i]) & 0xc0) != 0x80) return 0;
  }
  return size;
}

std::string Escaped(char byte) {
  switch (byte) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    default:
      return Format("\\x%02x", static_cast<unsigned char>(byte));
  }
}

bool StaysOnItsLine(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code >= 0x20 && code != 0x7f && byte != '"' && byte != '\\';
}

std::string TokenText(const pb::Logprob& token) {
  const std::string id = std::to_string(token.token_id());
  return (token.bytes().empty() ? id : id + " " + Quoted(token.bytes())) +
         Format(" %.4f", static_cast<double>(token.logprob()));
}

std::string LogprobsText(const pb::TokenLogprobs& logprobs) {
  std::string line = "  " + TokenText(logprobs.chosen());
  const char* separator = "   of: ";
  for (const pb::Logprob& token : logprobs.top()) {
    line += separator + TokenText(token);
    separator = ", ";
  }
  return line + "\n";
}

std::string ReasonText(const pb::Choice& choice) {
  std::string text = pb::FinishReason_Name(choice.reason());
  if (choice.has_token()) text += " " + std::to_string(choice.token());
  if (choice.has_stop_string()) text += " " + Quoted(choice.stop_string());
  return text;
}

}  // namespace

std::string Quoted(const std::string& bytes) {
  std::string text = "\"";
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = CharacterSize(bytes, at);
    const bool shown = size > 0 && StaysOnItsLine(bytes[at]);
    text += shown ? bytes.substr(at, size) : Escaped(bytes[at]);
    at += shown ? size : 1;
  }
  return text + "\"";
}

void Add(const pb::Delta& delta, pb::Choice& choice) {
  choice.set_index(delta.index());
  choice.mutable_text()->append(delta.text());
  choice.mutable_token_ids()->MergeFrom(delta.token_ids());
  choice.mutable_logprobs()->MergeFrom(delta.logprobs());
}

void End(const pb::Finished& finished, pb::Choice& choice) {
  choice.set_index(finished.index());
  choice.mutable_text()->append(finished.text());
  choice.set_reason(finished.reason());
  if (finished.matched_case() == pb::Finished::kToken) choice.set_token(finished.token());
  if (finished.matched_case() == pb::Finished::kStopString) {
    choice.set_stop_string(finished.stop_string());
  }
}

std::string ChoiceText(const pb::Choice& choice) {
  std::string text = Format("--- choice %u: ", choice.index()) + ReasonText(choice) + "\n";
  for (const std::uint32_t id : choice.token_ids()) text += std::to_string(id) + " ";
  text += choice.text() + "\n";
  for (const pb::TokenLogprobs& logprobs : choice.logprobs()) text += LogprobsText(logprobs);
  return text;
}

std::string UsageText(const pb::Usage& usage, const pb::Timings& timings, const std::string& reason,
                      std::uint64_t seed) {
  const double per_second = timings.decode_ms() > 0 && usage.completion_tokens() > 1
                                ? (usage.completion_tokens() - 1) * 1000.0 / timings.decode_ms()
                                : 0;
  return reason + Format(
                      "; %u prompt tokens (%u cached), %u generated; first after %.0f ms, then "
                      "%.1f tokens/s; seed %llu",
                      usage.prompt_tokens(), usage.cached_tokens(), usage.completion_tokens(),
                      timings.ttft_ms(), per_second, static_cast<unsigned long long>(seed));
}

}  // namespace k3::server::ctl
