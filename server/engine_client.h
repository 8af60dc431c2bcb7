// What the front end needs of an engine. The real one stands behind it, or a scripted one in tests.
// The laws are those of runtime/engine/engine.h.
#pragma once
#include <chrono>
#include <memory>

#include "runtime/engine/engine.h"

namespace k3::server {

class EngineClient {
 public:
  virtual ~EngineClient() = default;

  virtual const runtime::EngineInfo& info() const = 0;
  virtual const runtime::EngineCounters& counters() const = 0;
  virtual Result<runtime::RequestId> Submit(runtime::Request request, runtime::Outbox* outbox) = 0;
  virtual void Cancel(runtime::RequestId id) = 0;
  virtual bool Drain(std::chrono::milliseconds timeout) = 0;
  virtual void Stop() = 0;
};

std::unique_ptr<EngineClient> MakeEngineClient(std::unique_ptr<runtime::Engine> engine);

}  // namespace k3::server
