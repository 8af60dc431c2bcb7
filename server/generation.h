// One request from Submit to its Finished, for any surface: ids out of the engine become text here.
//   1. Take hands out everything since the last Take; a reader that comes late gets it merged.
//   2. It must outlive its Finished (engine.h, law 2): destroy it only after Take showed it, or
//   when
//      Submit refused.
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/text/detokenizer.h"
#include "server/served_model.h"

namespace k3::server {

struct GenerationStep {
  std::optional<runtime::Started> started;
  std::vector<runtime::Token> tokens;
  std::string text;  // of these tokens and of earlier ones that waited for a whole character
  std::optional<runtime::Finished> finished;
  std::string trailing_text;  // with finished: what never became a whole character
};

class Generation {
 public:
  // `wake`: Outbox, law 3.
  Generation(const ServedModel& model, bool want_text, std::function<void()> wake);

  Result<Ok> Submit(runtime::Request request);  // once
  GenerationStep Take();                        // one thread at a time, after Submit
  // From any thread, at any time, also before Submit.
  void Cancel();

 private:
  EngineClient& engine_;
  bool want_text_;
  runtime::Detokenizer detokenizer_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> submitted_{false};
  runtime::RequestId id_{};  // written before submitted_
  runtime::Outbox outbox_;
};

}  // namespace k3::server
