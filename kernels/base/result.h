// Result<T>: a value, or the reason the outside world refused.
#pragma once
#include <string>
#include <utility>
#include <variant>

#include "kernels/base/check.h"

namespace k3 {

// Who the world's fault belongs to; server maps these to gRPC status, HTTP status and exit codes.
enum class Code {
  kInvalidArgument,    // the request or the file says something wrong
  kNotFound,           // a path, a model, a tensor that is not there
  kResourceExhausted,  // queue, memory or quota; may be retried
  kUnavailable,        // loading, draining; may be retried
  kDataLoss,           // truncated or damaged bytes
  kDeadlineExceeded,   // the caller's own limit has passed
  kUnimplemented,      // known to the format or the protocol, not built
  kCancelled,
  kInternal,  // we are wrong, but the process may live (NaN logits)
};

struct [[nodiscard]] Error {
  Code code;
  std::string message;
};

// A step that yields no value: Result<Ok>.
struct Ok {};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  const Error& error() const {
    K3_CHECK(!ok());
    return std::get<Error>(state_);
  }
  T& value() & {
    K3_CHECK(ok());
    return std::get<T>(state_);
  }
  const T& value() const& {
    K3_CHECK(ok());
    return std::get<T>(state_);
  }
  T&& value() && {
    K3_CHECK(ok());
    return std::get<T>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

}  // namespace k3
