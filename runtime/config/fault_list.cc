#include "runtime/config/fault_list.h"

#include <sstream>
#include <utility>

namespace k3::runtime {

void FaultList::Add(Code code, std::string line) {
  if (count_ == 0) code_ = code;
  ++count_;
  if (lines_.size() < kMaxShown) lines_.push_back(std::move(line));
}

void FaultList::Add(const Error& error) {
  std::istringstream lines(error.message);
  for (std::string line; std::getline(lines, line);) Add(error.code, line);
}

Error FaultList::ToError() const {
  K3_CHECK(count_ > 0);
  std::string message;
  for (const std::string& line : lines_) {
    if (!message.empty()) message += '\n';
    message += line;
  }
  if (count_ > lines_.size()) {
    message += "\n... and " + std::to_string(count_ - lines_.size()) + " more, " +
               std::to_string(count_) + " faults in all";
  }
  return {code_, std::move(message)};
}

}  // namespace k3::runtime
