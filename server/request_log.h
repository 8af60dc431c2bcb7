// Two lines per request: when it was admitted (or refused), and when it ended. Numbers and ids
// only, never a client's words.
//   1. As text `request admitted id=... prompt_tokens=...`; as JSON one object per line.
#pragma once
#include <string>

#include "server/admission.h"

namespace k3::server {

class RequestLog {
 public:
  enum class Mode : std::uint8_t { kOff, kText, kJson };  // as the logger is set up
  explicit RequestLog(Mode mode) : mode_(mode) {}

  struct End {
    std::string status;  // a gRPC status name
    std::string finish;  // of the first choice
    int completion_tokens = 0;
    int cached_tokens = 0;
    runtime::Timings timings;
    double total_seconds = 0;
  };

  void Admitted(const std::string& id, const char* api, const server::Admitted& admitted) const;
  void Refused(const std::string& id, const char* api, const ApiError& error) const;
  void Ended(const std::string& id, const char* api, const End& end) const;

 private:
  Mode mode_;
};

// The default logger: to stderr, as text or one JSON object per line. A message that is an object
// itself is merged into its line.
void SetUpLogging(const std::string& level, bool json);

}  // namespace k3::server
