// Collects what is wrong with the outside world, so that a user sees every fault at once.
//   1. All faults are counted; the first kMaxShown are kept, so a message stays readable.
//   2. The error's code is that of the first fault.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/base/result.h"

namespace k3::runtime {

class FaultList {
 public:
  static constexpr std::size_t kMaxShown = 50;

  void Add(Code code, std::string line);
  // Takes another step's error over as faults of this one, a line each.
  void Add(const Error& error);

  bool empty() const { return count_ == 0; }
  std::size_t count() const { return count_; }
  // One fault a line; a last line tells how many are not shown. Only when not empty.
  Error ToError() const;

 private:
  Code code_ = Code::kInvalidArgument;
  std::vector<std::string> lines_;
  std::size_t count_ = 0;
};

}  // namespace k3::runtime
