// A running k3serve as plain calls: the one unit of k3ctl that includes gRPC.
//   1. A call answers with an Outcome; its answer is whole when ok(), else untouched.
//   2. Stream returns at once. on_event, then on_done once, come from gRPC's threads, one at a time
//      for each call; while on_event works, no more of that stream is read.
//   3. All but Stream and Complete, which may take hours, give up after kControlSeconds.
//   4. The Remote outlives its streams, and may go as soon as the last on_done has been called.
//      Any thread may call; none of gRPC's destroys it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace k3serve::v1 {
class AbortRequest;
class AbortResponse;
class DetokenizeRequest;
class DetokenizeResponse;
class DrainRequest;
class DrainResponse;
class GenerateEvent;
class GenerateRequest;
class GenerateResult;
class GetLoadsRequest;
class LoadSnapshot;
class ModelInfo;
class ServerInfo;
class TokenizeRequest;
class TokenizeResponse;
}  // namespace k3serve::v1

namespace k3::server::ctl {

namespace pb = k3serve::v1;

inline constexpr int kControlSeconds = 10;

struct Outcome {
  int status = 0;      // gRPC's code; 0: well
  std::string reason;  // the server's word for it, or the status's name
  std::string message;

  bool ok() const { return status == 0; }
  int exit_code() const { return ok() ? 0 : 10 + status; }
};

// Says on stderr what went wrong, if anything; the exit code.
int Report(const Outcome& outcome);

using TimeoutSeconds = std::optional<double>;  // none: no deadline

class Remote {
 public:
  using OnEvent = std::function<void(const pb::GenerateEvent&)>;
  using OnDone = std::function<void(const Outcome&)>;

  explicit Remote(const std::string& address);  // connects with the first call
  ~Remote();

  void Stream(const pb::GenerateRequest& request, TimeoutSeconds timeout, OnEvent on_event,
              OnDone on_done) const;
  Outcome Complete(const pb::GenerateRequest& request, TimeoutSeconds timeout,
                   pb::GenerateResult& answer) const;
  Outcome Tokenize(const pb::TokenizeRequest& request, pb::TokenizeResponse& answer) const;
  Outcome Detokenize(const pb::DetokenizeRequest& request, pb::DetokenizeResponse& answer) const;

  Outcome Health(const std::string& service, bool& serving) const;
  Outcome GetModelInfo(pb::ModelInfo& answer) const;
  Outcome GetServerInfo(pb::ServerInfo& answer) const;
  Outcome GetLoads(const pb::GetLoadsRequest& request, pb::LoadSnapshot& answer) const;
  Outcome Abort(const pb::AbortRequest& request, pb::AbortResponse& answer) const;
  Outcome Drain(const pb::DrainRequest& request, pb::DrainResponse& answer) const;

 private:
  struct Stubs;
  std::unique_ptr<Stubs> stubs_;
};

}  // namespace k3::server::ctl
