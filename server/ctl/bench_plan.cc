#include "server/ctl/bench_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace k3::server::ctl {
namespace {

class IdSource {
 public:
  IdSource(const RandomPrompts& wanted, Random& random)
      : excluded_(wanted.excluded), random_(random) {
    std::sort(excluded_.begin(), excluded_.end());
    excluded_.erase(std::unique(excluded_.begin(), excluded_.end()), excluded_.end());
    std::erase_if(excluded_, [&](std::uint32_t id) { return id >= wanted.vocab_size; });
    K3_CHECK(wanted.vocab_size > excluded_.size());
    rank_ =
        decltype(rank_)(0, wanted.vocab_size - static_cast<std::uint32_t>(excluded_.size()) - 1);
  }

  // The id of a random rank among those that are allowed.
  std::uint32_t Next() {
    std::uint32_t id = rank_(random_);
    for (const std::uint32_t excluded : excluded_) id += id >= excluded ? 1 : 0;
    return id;
  }

  void Append(int count, std::vector<std::uint32_t>& ids) {
    for (int i = 0; i < count; ++i) ids.push_back(Next());
  }

 private:
  std::vector<std::uint32_t> excluded_;
  Random& random_;
  std::uniform_int_distribution<std::uint32_t> rank_;
};

int RandomLength(int mean, double ratio, Random& random) {
  const int low = std::max(1, static_cast<int>(std::floor(mean * (1 - ratio))));
  const int high = std::max(low, static_cast<int>(std::ceil(mean * (1 + ratio))));
  return std::uniform_int_distribution<int>(low, high)(random);
}

// One line of a file into a prompt; the fault's words where it is none.
std::string ParseLine(const std::string& line, Prompt& prompt) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return "not a JSON object";
  const auto text = json.find("prompt");
  if (text == json.end() || !text->is_string()) return "no string \"prompt\"";
  prompt.text = text->get<std::string>();
  const auto length = json.find("output_len");
  if (length == json.end()) return "";
  if (!length->is_number_integer()) return "\"output_len\" is no whole number";
  const auto tokens = length->get<std::int64_t>();
  if (tokens < 1 || tokens > std::numeric_limits<int>::max()) return "\"output_len\" is below 1";
  prompt.output_tokens = static_cast<int>(tokens);
  return "";
}

std::vector<std::string> Lines(std::string_view file) {
  std::vector<std::string> lines;
  while (!file.empty()) {
    const std::size_t end = std::min(file.find('\n'), file.size());
    lines.emplace_back(file.substr(0, end));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    file.remove_prefix(std::min(end + 1, file.size()));
  }
  return lines;
}

}  // namespace

std::vector<Prompt> MakePrompts(const RandomPrompts& wanted, Random& random) {
  IdSource ids(wanted, random);
  std::vector<std::vector<std::uint32_t>> prefixes(static_cast<std::size_t>(wanted.num_groups));
  for (auto& prefix : prefixes) ids.Append(wanted.prefix_tokens, prefix);
  std::vector<Prompt> prompts;
  for (int i = 0; i < wanted.count; ++i) {
    Prompt& prompt = prompts.emplace_back();
    prompt.ids = prefixes[static_cast<std::size_t>(i % wanted.num_groups)];
    ids.Append(RandomLength(wanted.input_tokens, wanted.range_ratio, random), prompt.ids);
    prompt.output_tokens = RandomLength(wanted.output_tokens, wanted.range_ratio, random);
  }
  return prompts;
}

Result<std::vector<Prompt>> ParsePrompts(std::string_view file, int output_tokens) {
  std::vector<Prompt> prompts;
  std::string faults;
  std::optional<bool> is_json;
  int number = 0;
  for (const std::string& line : Lines(file)) {
    ++number;
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (!is_json) is_json = line.starts_with('{');
    Prompt& prompt = prompts.emplace_back(Prompt{line, {}, output_tokens});
    const std::string fault = *is_json ? ParseLine(line, prompt) : "";
    if (!fault.empty()) faults += "line " + std::to_string(number) + ": " + fault + "\n";
  }
  if (prompts.empty()) faults += "no prompt in it\n";
  if (!faults.empty()) return Error{Code::kInvalidArgument, std::move(faults)};
  return prompts;
}

std::vector<double> ArrivalTimes(int count, double rate, double burstiness, Random& random) {
  std::vector<double> times(static_cast<std::size_t>(count), 0.0);
  if (std::isinf(rate)) return times;
  std::gamma_distribution<double> gap(burstiness, 1);  // any scale: it is stretched
  double now = 0;
  for (double& time : times) time = now += gap(random);
  const double stretch = now > 0 ? count / rate / now : 0;
  for (double& time : times) time *= stretch;
  return times;
}

}  // namespace k3::server::ctl
