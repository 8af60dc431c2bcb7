#include "server/ctl/generate.h"

#include <charconv>
#include <cstdio>
#include <future>
#include <map>

#include "proto/k3serve/v1/inference.pb.h"
#include "server/ctl/choice_text.h"
#include "server/ctl/message_json.h"
#include "server/ctl/remote.h"
#include "server/exit_codes.h"

namespace k3::server::ctl {
namespace {

template <typename T>
bool ParseWhole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// "ID=VALUE" into `sampling`; false when it is not that.
bool AddBias(const std::string& text, pb::SamplingParams& sampling) {
  const std::size_t middle = text.find('=');
  std::uint32_t id = 0;
  float value = 0;
  if (middle == std::string::npos || !ParseWhole(std::string_view(text).substr(0, middle), id) ||
      !ParseWhole(std::string_view(text).substr(middle + 1), value)) {
    return false;
  }
  (*sampling.mutable_logit_bias())[id] = value;
  return true;
}

void FillSampling(const GenerateCommand& command, pb::SamplingParams& sampling) {
  if (command.temperature) sampling.set_temperature(*command.temperature);
  if (command.top_p) sampling.set_top_p(*command.top_p);
  if (command.top_k) sampling.set_top_k(*command.top_k);
  if (command.min_p) sampling.set_min_p(*command.min_p);
  if (command.presence_penalty) sampling.set_presence_penalty(*command.presence_penalty);
  if (command.frequency_penalty) sampling.set_frequency_penalty(*command.frequency_penalty);
  if (command.repetition_penalty) sampling.set_repetition_penalty(*command.repetition_penalty);
  if (command.seed) sampling.set_seed(*command.seed);
  if (command.n) sampling.set_n(*command.n);
  sampling.mutable_allowed_token_ids()->Add(command.allowed_token_ids.begin(),
                                            command.allowed_token_ids.end());
}

void FillStop(const GenerateCommand& command, pb::StopParams& stop) {
  if (command.max_tokens) stop.set_max_new_tokens(*command.max_tokens);
  if (command.min_tokens) stop.set_min_new_tokens(*command.min_tokens);
  for (const std::string& text : command.stop_strings) stop.add_stop_strings(text);
  stop.mutable_stop_token_ids()->Add(command.stop_token_ids.begin(), command.stop_token_ids.end());
  if (command.ignore_eos) stop.set_ignore_eos(true);
  if (command.include_stop) stop.set_include_stop(true);
}

void FillRest(const GenerateCommand& command, pb::GenerateRequest& request) {
  request.set_request_id(command.request_id);
  if (command.prompt_ids.empty()) {
    request.set_text(command.text);
  } else {
    request.mutable_token_ids()->mutable_ids()->Add(command.prompt_ids.begin(),
                                                    command.prompt_ids.end());
  }
  if (command.show_ids) {
    request.mutable_output()->set_want_text(false);
    request.mutable_output()->set_want_token_ids(true);
  }
  if (command.logprobs) request.mutable_output()->set_logprobs(*command.logprobs);
  if (command.priority) request.mutable_scheduling()->set_priority(*command.priority);
  if (command.queue_timeout_ms) {
    request.mutable_scheduling()->set_queue_timeout_ms(*command.queue_timeout_ms);
  }
}

void Show(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::string Ids(const google::protobuf::RepeatedField<std::uint32_t>& ids) {
  std::string all;
  for (const std::uint32_t id : ids) all += std::to_string(id) + " ";
  return all;
}

// Takes the events of one stream in order, shows them, and remembers the end.
class StreamView {
 public:
  explicit StreamView(const GenerateCommand& command)
      : command_(command), whole_(command.n.value_or(1) > 1 || command.logprobs) {}

  void Take(const pb::GenerateEvent& event) {
    if (command_.json) return Show(ToJsonLine(event) + "\n");
    if (event.has_started()) seed_ = event.started().sampling().seed();
    if (whole_) {
      TakeWhole(event);
    } else {
      TakeText(event);
    }
    if (event.has_completed()) {
      const std::string usage =
          UsageText(event.completed().usage(), event.completed().timings(), reason_, seed_);
      std::fprintf(stderr, "%s\n", usage.c_str());
    }
  }

 private:
  void TakeText(const pb::GenerateEvent& event) {
    if (event.has_delta()) {
      Show(command_.show_ids ? Ids(event.delta().token_ids()) : event.delta().text());
    }
    if (event.has_finished()) {
      reason_ = pb::FinishReason_Name(event.finished().reason());
      Show(event.finished().text() + "\n");
    }
  }

  void TakeWhole(const pb::GenerateEvent& event) {
    if (event.has_delta()) Add(event.delta(), choices_[event.delta().index()]);
    if (event.has_finished()) {
      pb::Choice& choice = choices_[event.finished().index()];
      End(event.finished(), choice);
      Show(ChoiceText(choice));
      reason_ = std::to_string(choices_.size()) + " choices";
    }
  }

  const GenerateCommand& command_;
  const bool whole_;
  std::map<std::uint32_t, pb::Choice> choices_;
  std::string reason_;
  std::uint64_t seed_ = 0;
};

Outcome GenerateStreamed(const GenerateCommand& command, const pb::GenerateRequest& request) {
  StreamView view(command);
  std::promise<Outcome> done;
  const Remote remote(command.server);  // goes first, and with it the thread that sets the promise
  remote.Stream(
      request, command.timeout_seconds, [&view](const pb::GenerateEvent& e) { view.Take(e); },
      [&done](const Outcome& outcome) { done.set_value(outcome); });
  return done.get_future().get();
}

Outcome GenerateUnary(const GenerateCommand& command, const pb::GenerateRequest& request) {
  pb::GenerateResult result;
  const Outcome outcome = Remote(command.server).Complete(request, command.timeout_seconds, result);
  if (!outcome.ok()) return outcome;
  if (command.json) {
    Show(ToJsonLine(result) + "\n");
    return outcome;
  }
  const bool plain = result.choices_size() == 1 && !command.logprobs;
  for (const pb::Choice& choice : result.choices()) {
    Show(plain ? Ids(choice.token_ids()) + choice.text() + "\n" : ChoiceText(choice));
  }
  const std::string reason = plain ? pb::FinishReason_Name(result.choices(0).reason())
                                   : std::to_string(result.choices_size()) + " choices";
  const std::string usage =
      UsageText(result.usage(), result.timings(), reason, result.started().sampling().seed());
  std::fprintf(stderr, "%s\n", usage.c_str());
  return outcome;
}

}  // namespace

Result<pb::GenerateRequest> ToRequest(const GenerateCommand& command) {
  pb::GenerateRequest request;
  std::string faults;
  FillSampling(command, *request.mutable_sampling());
  for (const std::string& bias : command.logit_bias) {
    if (!AddBias(bias, *request.mutable_sampling())) {
      faults += "--logit-bias " + bias + ": not ID=VALUE\n";
    }
  }
  if (command.timeout_seconds && !(*command.timeout_seconds > 0)) {
    faults += "--timeout: more than 0 seconds\n";
  }
  if (!command.prompt_ids.empty() && !command.text.empty()) {
    faults += "a text and --prompt-ids: which one is the prompt?\n";
  }
  FillStop(command, *request.mutable_stop());
  FillRest(command, request);
  if (!faults.empty()) return Error{Code::kInvalidArgument, std::move(faults)};
  return request;
}

int Generate(const GenerateCommand& command) {
  const Result<pb::GenerateRequest> request = ToRequest(command);
  if (!request.ok()) {
    std::fprintf(stderr, "k3ctl: %s", request.error().message.c_str());
    return kExitUsage;
  }
  return Report(command.unary ? GenerateUnary(command, request.value())
                              : GenerateStreamed(command, request.value()));
}

}  // namespace k3::server::ctl
