// The threads that do text work: parsing, tokenizing, detokenizing, encoding of events.
//   1. Neither the engine thread nor gRPC's own threads do any of it.
//   2. The queue is bounded by its users: a call in flight has at most one task in it.
//   3. The destructor runs what was posted, then ends; nobody posts by then.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace k3::server {

class TextPool {
 public:
  explicit TextPool(int threads);
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;
  ~TextPool();

  void Post(std::function<void()> task);  // from any thread

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable available_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace k3::server
