#include "server/ctl/bench.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include "proto/k3serve/v1/control.pb.h"
#include "server/ctl/bench_plan.h"
#include "server/ctl/bench_report.h"
#include "server/ctl/bench_run.h"
#include "server/ctl/remote.h"
#include "server/exit_codes.h"

namespace k3::server::ctl {
namespace {

constexpr int kNothingCompleted = 1;
constexpr std::uint64_t kWarmupSeed = 1ULL << 32;  // other tokens than the measured ones

class Faults {
 public:
  void Unless(bool well, const std::string& fault) {
    if (!well) all_ += fault + "\n";
  }
  const std::string& all() const { return all_; }

 private:
  std::string all_;
};

int Refuse(const std::string& faults) {
  std::fprintf(stderr, "k3ctl: %s", faults.c_str());
  return kExitUsage;
}

// "ttft:MS" and its like into `goodput`; false when it is not that.
bool AddGoodput(const std::string& text, Goodput& goodput) {
  const std::size_t middle = std::min(text.find(':'), text.size());
  const std::string name = text.substr(0, middle);
  std::optional<double>* limit = name == "ttft"   ? &goodput.ttft_ms
                                 : name == "tpot" ? &goodput.tpot_ms
                                 : name == "e2el" ? &goodput.e2el_ms
                                                  : nullptr;
  if (limit == nullptr || middle == text.size()) return false;
  double value = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + middle + 1, end, value);
  if (error != std::errc() || stop != end || !(value >= 0)) return false;
  *limit = value;
  return true;
}

void CheckLoad(const BenchCommand& command, Faults& faults) {
  faults.Unless(!command.concurrency || *command.concurrency >= 1, "--concurrency: at least 1");
  faults.Unless(!command.max_concurrency || *command.max_concurrency >= 1,
                "--max-concurrency: at least 1");
  faults.Unless(!command.concurrency || (!command.request_rate && !command.max_concurrency),
                "--concurrency is a closed loop, --request-rate and --max-concurrency an open one");
  faults.Unless(command.rate() > 0, "--request-rate: more than 0, or inf");
  faults.Unless(command.burstiness > 0, "--burstiness: more than 0");
  faults.Unless(command.num_prompts >= 1, "--num-prompts: at least 1");
  faults.Unless(command.num_warmups >= 0, "--num-warmups: at least 0");
  faults.Unless(!command.timeout_seconds || *command.timeout_seconds > 0,
                "--timeout: more than 0 seconds");
}

void CheckPrompts(const BenchCommand& command, Faults& faults) {
  faults.Unless(command.random_input_len >= 1, "--random-input-len: at least 1");
  faults.Unless(command.random_output_len >= 1, "--random-output-len: at least 1");
  faults.Unless(command.random_range_ratio >= 0 && command.random_range_ratio < 1,
                "--random-range-ratio: at least 0, below 1");
  faults.Unless(command.prefix_len >= 0, "--prefix-len: at least 0");
  faults.Unless(command.num_prefixes >= 1, "--num-prefixes: at least 1");
}

void CheckReport(const BenchCommand& command, Faults& faults) {
  for (const std::string& metric : command.percentile_metrics) {
    faults.Unless(metric == "ttft" || metric == "tpot" || metric == "itl" || metric == "e2el",
                  "--percentile-metrics " + metric + ": ttft, tpot, itl or e2el");
  }
  for (const double percent : command.metric_percentiles) {
    faults.Unless(percent >= 0 && percent <= 100, "--metric-percentiles: 0 to 100");
  }
  faults.Unless(command.result_file.empty() || std::ofstream(command.result_file, std::ios::app),
                "--result-file " + command.result_file + ": cannot be written");
}

// `count` prompts that the model can answer.
Result<std::vector<Prompt>> PlanPrompts(const BenchCommand& command, const pb::ModelInfo& model,
                                        int count, Random& random) {
  if (command.dataset_path.empty()) {
    const std::vector<std::uint32_t> eos(model.eos_token_ids().begin(),
                                         model.eos_token_ids().end());
    return MakePrompts(
        {model.vocab_size(), eos, count, command.random_input_len, command.random_output_len,
         command.random_range_ratio, command.prefix_len, command.num_prefixes},
        random);
  }
  std::ifstream file(command.dataset_path);
  std::stringstream bytes;
  if (!file || !(bytes << file.rdbuf())) {
    return Error{Code::kNotFound, command.dataset_path + ": cannot be read, or is empty\n"};
  }
  auto lines = ParsePrompts(bytes.str(), command.random_output_len);
  if (!lines.ok())
    return Error{Code::kInvalidArgument, command.dataset_path + ":\n" + lines.error().message};
  std::vector<Prompt> prompts;
  for (int i = 0; i < count; ++i) {
    prompts.push_back(lines.value()[static_cast<std::size_t>(i) % lines.value().size()]);
  }
  return prompts;
}

// What the server would refuse of ids, it would refuse of nearly all: better said at once.
std::string TooLong(std::span<const Prompt> prompts, std::uint32_t max_model_len) {
  std::size_t longest = 0;
  for (const Prompt& prompt : prompts) {
    longest = std::max(longest, prompt.ids.size() + static_cast<std::size_t>(prompt.output_tokens));
  }
  if (longest <= max_model_len) return "";
  return "a request of " + std::to_string(longest) +
         " tokens, prompt and output; the server's "
         "--max-model-len is " +
         std::to_string(max_model_len) + "\n";
}

std::string RunName() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "bench-%llx-%x-", static_cast<unsigned long long>(ms),
                static_cast<unsigned>(getpid()));
  return name.data();
}

BenchLoad LoadOf(const BenchCommand& command) {
  BenchLoad load;
  load.max_concurrency = command.limit();
  load.id_prefix = RunName();
  load.temperature = command.temperature;
  load.seed = command.seed;
  load.ignore_eos = command.ignore_eos;
  load.timeout = command.timeout_seconds;
  return load;
}

void WarmUp(const Remote& remote, BenchLoad load, std::span<const Prompt> prompts) {
  const std::vector<double> at_once(prompts.size(), 0.0);
  load.prompts = prompts;
  load.at_seconds = at_once;
  load.id_prefix += "warmup-";
  load.seed += kWarmupSeed;
  const BenchRun run = RunBench(remote, load);
  for (const RequestRecord& record : run.records) {
    if (record.error.empty()) continue;
    std::fprintf(stderr, "k3ctl: a warm-up request failed: %s: %s\n", record.error.c_str(),
                 record.error_message.c_str());
    return;
  }
}

}  // namespace

Result<Goodput> CheckBench(const BenchCommand& command) {
  Faults faults;
  Goodput goodput;
  CheckLoad(command, faults);
  CheckPrompts(command, faults);
  CheckReport(command, faults);
  for (const std::string& limit : command.goodput) {
    faults.Unless(AddGoodput(limit, goodput), "--goodput " + limit + ": ttft:MS, tpot:MS, e2el:MS");
  }
  if (!faults.all().empty()) return Error{Code::kInvalidArgument, faults.all()};
  return goodput;
}

int Bench(const BenchCommand& command) {
  const Result<Goodput> goodput = CheckBench(command);
  if (!goodput.ok()) return Refuse(goodput.error().message);
  const Remote remote(command.server);
  pb::ModelInfo model;
  const Outcome outcome = remote.GetModelInfo(model);
  if (!outcome.ok()) return Report(outcome);

  Random random(command.seed);
  const auto planned =
      PlanPrompts(command, model, command.num_prompts + command.num_warmups, random);
  if (!planned.ok()) return Refuse(planned.error().message);
  const std::span<const Prompt> prompts(planned.value());
  const std::string too_long = TooLong(prompts, model.max_model_len());
  if (!too_long.empty()) return Refuse(too_long);
  const auto num_prompts = static_cast<std::size_t>(command.num_prompts);
  const std::vector<double> arrivals =
      ArrivalTimes(command.num_prompts, command.rate(), command.burstiness, random);

  BenchLoad load = LoadOf(command);
  if (command.num_warmups > 0) WarmUp(remote, load, prompts.subspan(num_prompts));
  load.prompts = prompts.first(num_prompts);
  load.at_seconds = arrivals;
  const BenchRun run = RunBench(remote, load);
  const BenchReport report{command, goodput.value(), model.names_size() > 0 ? model.names(0) : "",
                           run,
                           Summarize(run.records, command.metric_percentiles, goodput.value())};
  std::fputs(ReportText(report).c_str(), stdout);
  if (!command.result_file.empty()) std::ofstream(command.result_file) << ReportJson(report);
  return report.summary.completed > 0 ? 0 : kNothingCompleted;
}

}  // namespace k3::server::ctl
