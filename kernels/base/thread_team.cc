#include "kernels/base/thread_team.h"

#include <chrono>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include "kernels/base/check.h"

namespace k3 {
namespace {

constexpr std::chrono::microseconds kSpin{20};
constexpr int kPinFromCores = 4;
constexpr unsigned kDefaultMxcsr = 0x1f80;

void PinTo(int core) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all) || seen++ != core) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    return;
  }
}

// Waits until `value` is no longer `old`: spins a little, then sleeps in the kernel.
template <typename T>
void Await(const std::atomic<T>& value, T old) {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  while (value.load(std::memory_order_acquire) == old) {
    _mm_pause();
    if (std::chrono::steady_clock::now() < until) continue;
    value.wait(old, std::memory_order_acquire);
  }
}

}  // namespace

void SetFloatMode() {
  _mm_setcsr(kDefaultMxcsr);
}

int UsableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int cores = CPU_COUNT(&set);
  return cores > 0 ? cores : 1;
}

ThreadTeam::ThreadTeam(int threads) {
  K3_CHECK(threads >= 1);
  SetFloatMode();
  const bool pin = UsableCores() >= kPinFromCores;
  for (int worker = 1; worker < threads; ++worker) {
    threads_.emplace_back([this, worker, pin] {
      if (pin) PinTo(worker);
      SetFloatMode();
      Work(worker);
    });
  }
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::Run(Job job, void* context) {
  SetFloatMode();  // the caller may be any thread; a library may have changed its mode
  if (threads_.empty()) {
    job(context, 0);
    return;
  }
  job_ = job;
  context_ = context;
  busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  job(context, 0);
  for (int left = busy_.load(std::memory_order_acquire); left != 0;
       left = busy_.load(std::memory_order_acquire)) {
    Await(busy_, left);
  }
}

void ThreadTeam::Work(int worker) {
  for (std::uint32_t seen = 0;;) {
    Await(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    job_(context_, worker);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace k3
