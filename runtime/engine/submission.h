// How the engine answers Submit.
#pragma once
#include <optional>
#include <string>
#include <variant>

#include "runtime/schedule/request.h"
#include "runtime/schedule/scheduler.h"

namespace k3::runtime {

struct Refusal {
  enum class Why : std::uint8_t {
    kInvalid,         // the request can never run here: the message says why
    kTooManyChoices,  // n live states do not fit
    kQueueFull,       // --max-queued-requests
    kTokensFull,      // --max-queued-tokens
    kStopping,
  };
  Why why = Why::kInvalid;
  std::string message;
  std::optional<int> retry_after_ms;  // when trying again may help
};

// The id of the first choice; the others follow it.
using Submitted = std::variant<RequestId, Refusal>;

// What no request may be, whoever asks: a server names its fields better, this is the last door.
std::optional<Refusal> FindFault(const Request& request, int choices,
                                 const SchedulerLimits& limits);

}  // namespace k3::runtime
