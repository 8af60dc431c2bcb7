// Turns the steps of a generation into the events of a stream, in order, numbered.
//   1. Started, then each choice's Delta* and Finished, then Completed; seq is 0, 1, 2, ...
//   2. num_tokens of all deltas together is the number of tokens generated.
//   3. A delta is made only when there is something to show: tokens whose text has to wait are
//      counted in a later one.
#pragma once
#include <deque>
#include <map>
#include <string>

#include "proto/k3serve/v1/inference.pb.h"
#include "server/generation.h"
#include "server/grpc/usage_sum.h"

namespace k3::server {

class EventStream {
 public:
  // The vocabulary outlives the stream.
  EventStream(const runtime::Vocabulary& vocabulary, std::string request_id,
              const k3serve::v1::OutputOptions& output);

  // What Started echoes.
  void Admitted(const server::Admitted& admitted);
  void Add(GenerationStep step);

  bool empty() const { return events_.empty(); }
  k3serve::v1::GenerateEvent Pop();  // not empty
  void Clear() { events_.clear(); }

  bool want_text() const { return want_text_; }

 private:
  k3serve::v1::GenerateEvent& Append();
  void AddStarted(const runtime::Started& started);
  void AddDelta(GenerationStep& step);
  void AddFinished(GenerationStep& step);

  const runtime::Vocabulary& vocabulary_;
  std::string request_id_;
  bool want_text_;
  bool want_token_ids_;
  bool include_prompt_token_ids_;
  server::Admitted admitted_;  // its prompt only where it is to be shown
  std::uint64_t next_seq_ = 0;
  bool started_ = false;
  bool failed_ = false;
  int unfinished_ = 0;
  UsageSum sum_;
  struct Untold {  // taken, and in no delta yet
    std::uint32_t tokens = 0;
    google::protobuf::RepeatedPtrField<k3serve::v1::TokenLogprobs> logprobs;
  };
  std::map<int, Untold> untold_;  // by choice
  std::deque<k3serve::v1::GenerateEvent> events_;
};

}  // namespace k3::server
