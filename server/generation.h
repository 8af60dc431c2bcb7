// One call from Submit to the last Finished of its choices, for any surface: ids out of the engine
// become text here, and stop strings are found in it.
//   1. Take hands out everything since the last Take; a reader that comes late gets it merged.
//   2. It must outlive its choices (engine.h, law 2): destroy it only after Take showed the last
//      Finished, or when Submit refused.
//   3. A stop string ends its choice with the token that completes it. Later tokens are neither
//      shown nor counted.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/text/detokenizer.h"
#include "server/admission.h"
#include "server/stop_matcher.h"

namespace k3::server {

// What came of one choice.
struct GenerationStep {
  int index = 0;
  std::optional<runtime::Started> started;
  std::vector<runtime::Token> tokens;
  std::vector<runtime::Logprobs> logprobs;  // one per token when asked for
  std::string text;  // of these tokens and of earlier ones whose text had to wait
  std::optional<runtime::Finished> finished;
  std::optional<std::string> stop_string;  // with finished: the one that ended it
  std::string trailing_text;               // with finished: what had to wait and came to nothing
  bool empty() const { return !started && tokens.empty() && !finished; }
};

class Generation {
 public:
  // `wake`: Outbox, law 3; it is copied.
  Generation(const ServedModel& model, bool want_text, std::function<void()> wake);

  std::optional<runtime::Refusal> Submit(Admitted admitted);  // once
  // The choices that have something to show. One thread at a time, after Submit.
  std::vector<GenerationStep> Take();
  bool done() const { return unfinished_ == 0; }  // every Finished was taken
  // Ends all choices. From any thread, at any time, also before Submit.
  void Cancel();

 private:
  struct Choice {
    Choice(const runtime::Vocabulary& vocabulary, StopMatcher stop, std::function<void()> wake)
        : detokenizer(vocabulary, runtime::SpecialText::kHidden),
          matcher(std::move(stop)),
          outbox(std::move(wake)) {}
    runtime::Detokenizer detokenizer;
    StopMatcher matcher;
    runtime::Outbox outbox;
    int num_tokens = 0;              // shown or to be shown
    std::optional<std::string> hit;  // the stop string; what comes after it is dropped
    bool finished = false;
  };

  GenerationStep TakeChoice(int index);
  void AddTokens(Choice& choice, runtime::Outbox::Batch& batch, GenerationStep& step);
  runtime::RequestId IdOf(int index) const;

  EngineClient& engine_;
  const runtime::Vocabulary& vocabulary_;
  bool want_text_;
  std::function<void()> wake_;
  bool match_text_ = false;  // there are stop strings
  int min_new_tokens_ = 0;   // no stop string ends before them
  std::deque<Choice> choices_;
  int unfinished_ = 0;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> submitted_{false};
  runtime::RequestId first_id_{};  // written before submitted_
  int num_ids_ = 0;                // likewise
};

}  // namespace k3::server
