// The gRPC port: the two services, health and reflection. It listens from Start on; until
// SetServing(true) health says NOT_SERVING and calls answer UNAVAILABLE.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "kernels/base/result.h"
#include "server/front_end.h"

namespace k3::server {

struct GrpcOptions {
  std::string host;
  int port = 0;  // 0: any free one
  int max_message_bytes = 0;
};

class GrpcServer {
 public:
  // kUnavailable: the address cannot be bound.
  static Result<std::unique_ptr<GrpcServer>> Start(const GrpcOptions& options,
                                                   const FrontEnd& front_end);
  ~GrpcServer();  // as Shutdown(0)

  int port() const;
  void SetServing(bool serving);
  // Takes no new calls; waits for those in flight, and cancels what is left after `grace`.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  struct Impl;
  explicit GrpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace k3::server
