#include "server/text_pool.h"

#include <utility>

namespace k3::server {

TextPool::TextPool(int threads) {
  threads_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

TextPool::~TextPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  available_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TextPool::Post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  available_.notify_one();
}

void TextPool::Work() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      available_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace k3::server
