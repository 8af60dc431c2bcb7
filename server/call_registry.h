// The calls in flight, by the id their clients know: for `top`, for `abort`.
//   1. A call is on the list while its Entry lives.
//   2. `abort` is called outside the lock, from the thread that aborts, and perhaps a moment after
//      the Entry has gone: it must be quick and own what it touches.
// Any thread. The registry outlives its entries.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace k3::server {

enum class CallState : std::uint8_t { kWaiting, kRunning, kWriting };
const char* NameOf(CallState state);

// What is known of a call when it is admitted.
struct CallFacts {
  std::string request_id;
  std::string tenant;
  int priority = 0;
  int prompt_tokens = 0;
};

struct Call {
  CallFacts facts;
  std::function<void(const std::string& reason)> abort;
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
  std::atomic<CallState> state{CallState::kWaiting};
  std::atomic<int> generated{0};
};

class CallRegistry {
 public:
  class Entry {
   public:
    Entry() = default;
    Entry(Entry&& other) noexcept { *this = std::move(other); }
    Entry& operator=(Entry&& other) noexcept {
      std::swap(registry_, other.registry_);
      std::swap(number_, other.number_);
      std::swap(call_, other.call_);
      return *this;
    }
    ~Entry() {
      if (registry_ != nullptr) registry_->Remove(number_);
    }
    Call* operator->() const { return call_.get(); }
    explicit operator bool() const { return call_ != nullptr; }

   private:
    friend class CallRegistry;
    CallRegistry* registry_ = nullptr;
    std::uint64_t number_ = 0;
    std::shared_ptr<Call> call_;
  };

  Entry Add(CallFacts facts, std::function<void(const std::string& reason)> abort);

  struct Which {
    std::vector<std::string> request_ids;
    std::string prefix;  // empty: none
    bool all = false;
  };
  // How many were told to end.
  int Abort(const Which& which, const std::string& reason);

  std::vector<std::shared_ptr<const Call>> Oldest(std::size_t most) const;

 private:
  void Remove(std::uint64_t number);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Call>> calls_;  // oldest first; guarded by mutex_
  std::uint64_t last_number_ = 0;                         // likewise
};

}  // namespace k3::server
