// A fixed team of threads for one caller at a time. The caller is worker 0, so on few cores nobody
// waits for a hand-over. Workers spin for 20 us after a job, then sleep.
//   1. Run() returns when every worker has returned from the job; its effects are visible then.
//   2. Every worker computes under the same floating-point mode (round to nearest, subnormals
//   kept).
//   3. Which worker does what must never change a result: split outputs, not sums.
// Workers are pinned only when the process may use four cores or more.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace k3 {

// Round to nearest, subnormals kept, exceptions masked: for the calling thread.
void SetFloatMode();

// Cores this process may run on (its affinity mask, not the machine's count).
int UsableCores();

class ThreadTeam {
 public:
  using Job = void (*)(void* context, int worker);

  explicit ThreadTeam(int threads);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  void Run(Job job, void* context);

 private:
  void Work(int worker);

  Job job_ = nullptr;
  void* context_ = nullptr;
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// Calls body(worker, begin, end) over [0, count) in pieces of `grain`, claimed as workers come
// free. A worker number is in use once at a time, so it may index memory of its own.
template <typename Body>
[[gnu::always_inline]] inline void ParallelForWorkers(ThreadTeam& team, std::int64_t count,
                                                      std::int64_t grain, const Body& body) {
  struct Shared {
    const Body* body;
    std::int64_t count, grain;
    std::int64_t next;
  } shared{&body, count, grain, 0};
  if (team.size() == 1 || count <= grain) {
    for (std::int64_t begin = 0; begin < count; begin += grain)
      body(0, begin, begin + grain < count ? begin + grain : count);
    return;
  }
  team.Run(
      [](void* context, int worker) {
        auto* s = static_cast<Shared*>(context);
        for (;;) {
          const std::int64_t begin = __atomic_fetch_add(&s->next, s->grain, __ATOMIC_RELAXED);
          if (begin >= s->count) return;
          const std::int64_t end = begin + s->grain;
          (*s->body)(worker, begin, end < s->count ? end : s->count);
        }
      },
      &shared);
}

// The same where nobody needs to know which worker it is.
template <typename Body>
[[gnu::always_inline]] inline void ParallelFor(ThreadTeam& team, std::int64_t count,
                                               std::int64_t grain, const Body& body) {
  ParallelForWorkers(team, count, grain,
                     [&body](int, std::int64_t begin, std::int64_t end) { body(begin, end); });
}

}  // namespace k3
