// Turns the steps of a generation into the events of a stream, in order, numbered.
//   1. Started, Delta*, Finished, Completed; seq is 0, 1, 2, ...
//   2. num_tokens of all deltas together is the number of tokens generated.
//   3. A delta is made only when there is something to show: tokens whose text still waits for a
//      whole character are counted in a later one.
#pragma once
#include <deque>
#include <string>

#include "proto/k3serve/v1/inference.pb.h"
#include "server/generation.h"

namespace k3::server {

class EventStream {
 public:
  EventStream(std::string request_id, const k3serve::v1::OutputOptions& output);

  // What Started echoes.
  void Admitted(const runtime::Request& request);
  void Add(GenerationStep step);

  bool empty() const { return events_.empty(); }
  k3serve::v1::GenerateEvent Pop();  // not empty
  void Clear() { events_.clear(); }

  bool want_text() const { return want_text_; }
  const std::string& request_id() const { return request_id_; }

 private:
  k3serve::v1::GenerateEvent& Append();
  void AddDelta(GenerationStep& step);

  std::string request_id_;
  bool want_text_;
  bool want_token_ids_;
  bool include_prompt_token_ids_;
  runtime::SamplingOptions sampling_;
  std::vector<runtime::Token> prompt_;  // empty unless it is to be shown
  std::uint64_t next_seq_ = 0;
  std::uint32_t untold_tokens_ = 0;  // taken, and in no delta yet
  std::deque<k3serve::v1::GenerateEvent> events_;
};

}  // namespace k3::server
