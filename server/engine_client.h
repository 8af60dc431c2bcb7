// The engine as the front end sees it: a seam, so that tests can put a scripted one behind it.
#pragma once
#include <memory>
#include <span>

#include "runtime/engine/engine.h"

namespace k3::server {

// The contracts are those of runtime/engine/engine.h. Any thread.
class EngineClient {
 public:
  virtual ~EngineClient() = default;
  virtual const runtime::EngineInfo& info() const = 0;
  virtual const runtime::EngineCounters& counters() const = 0;
  virtual runtime::Submitted Submit(runtime::Request request,
                                    std::span<runtime::Outbox* const> outboxes) = 0;
  virtual void End(runtime::RequestId id, runtime::FinishReason reason,
                   std::optional<int> completion_tokens) = 0;
  virtual bool Drain(std::chrono::milliseconds timeout) = 0;
  virtual void Stop() = 0;
};

std::unique_ptr<EngineClient> MakeEngineClient(std::unique_ptr<runtime::Engine> engine);

}  // namespace k3::server
