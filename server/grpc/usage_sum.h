// Usage and timings of a call from those of its choices: the prompt counts once, the output of all;
// the first token of any, the end of the last.
#pragma once
#include "runtime/schedule/request.h"

namespace k3serve::v1 {
class Timings;
class Usage;
}  // namespace k3serve::v1

namespace k3::server {

class UsageSum {
 public:
  void Add(const runtime::Finished& finished);
  void Fill(k3serve::v1::Usage& usage, k3serve::v1::Timings& timings) const;

 private:
  runtime::Usage usage_;
  runtime::Timings timings_;
  double decode_ = 0;  // seconds, of the choices that had more than one token
  int gaps_ = 0;       // between their tokens
  bool any_ = false;
};

}  // namespace k3::server
