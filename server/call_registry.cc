#include "server/call_registry.h"

#include <algorithm>
#include <utility>

namespace k3::server {

const char* NameOf(CallState state) {
  switch (state) {
    case CallState::kWaiting:
      return "waiting";
    case CallState::kRunning:
      return "running";
    case CallState::kWriting:
      return "writing";
  }
  return "";
}

CallRegistry::Entry CallRegistry::Add(CallFacts facts,
                                      std::function<void(const std::string&)> abort) {
  Entry entry;
  entry.registry_ = this;
  entry.call_ = std::make_shared<Call>();
  entry.call_->facts = std::move(facts);
  entry.call_->abort = std::move(abort);
  const std::lock_guard lock(mutex_);
  entry.number_ = ++last_number_;
  calls_.emplace(entry.number_, entry.call_);
  return entry;
}

void CallRegistry::Remove(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  calls_.erase(number);
}

std::vector<std::shared_ptr<const Call>> CallRegistry::Oldest(std::size_t most) const {
  std::vector<std::shared_ptr<const Call>> calls;
  const std::lock_guard lock(mutex_);
  for (const auto& [number, call] : calls_) {
    if (calls.size() == most) break;
    calls.push_back(call);
  }
  return calls;
}

int CallRegistry::Abort(const Which& which, const std::string& reason) {
  const auto meant = [&](const std::string& id) {
    return which.all || (!which.prefix.empty() && id.starts_with(which.prefix)) ||
           std::find(which.request_ids.begin(), which.request_ids.end(), id) !=
               which.request_ids.end();
  };
  int aborted = 0;
  for (const auto& call : Oldest(static_cast<std::size_t>(-1))) {
    if (!meant(call->facts.request_id)) continue;
    call->abort(reason);
    ++aborted;
  }
  return aborted;
}

}  // namespace k3::server
