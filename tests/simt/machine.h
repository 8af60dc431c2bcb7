// The machine behind simt.h: runs CUDA kernel source as host C++, one block at a time, each CUDA
// thread a fiber. A fiber runs until it synchronises or ends; then another is chosen.
//   1. Shared memory and the targets of asynchronous copies are poisoned, so that a missing barrier
//      gives wrong values under some order of threads.
//   2. Orders are drawn by priority (each warp and lane gets a random one, and at a few random
//      moments the running warp drops to the lowest): fair orders hide write-after-read races.
//   3. Accesses to shared memory are checked with vector clocks where a translation unit is
//      compiled with -fsanitize=thread (its hooks are ours, see tsan_hooks.cc): a race is then
//      reported whatever the order. Global memory is not tracked.
//   4. Options::omit_site leaves one synchronisation out, so that a test can show that every
//      barrier of a kernel is needed and that its absence is seen.
// Only one launch runs at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace k3::simt {

struct Index3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Index3() = default;
  // CUDA's dim3 converts from a number too.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Index3(unsigned x_in, unsigned y_in = 1, unsigned z_in = 1)
      : x(x_in), y(y_in), z(z_in) {}
  constexpr unsigned count() const { return x * y * z; }
};

struct Shape {
  Index3 grid;
  Index3 block;
  std::size_t shared_bytes = 0;  // dynamic shared memory
};

enum class Order { kForward, kReverse, kRandom };

struct Options {
  Order order = Order::kRandom;
  std::uint64_t seed = 1;
  int omit_site = -1;  // which synchronisation to leave out, counted in the order first reached
};

struct Report {
  int races = 0;
  int deadlocks = 0;
  int divergent = 0;  // one barrier reached from two lines
  int sites = 0;      // distinct synchronisations reached (block and named barriers, copy waits)
  std::uint64_t switches = 0;
  std::string first;  // what was seen first, in words

  bool clean() const { return races + deadlocks + divergent == 0; }
};

struct Site {
  const char* file;
  int line;
};

Report RunGrid(const Shape& shape, const Options& options, const std::function<void()>& body);

template <typename Kernel, typename... Args>
Report Launch(Kernel kernel, const Shape& shape, const Options& options, Args... args) {
  return RunGrid(shape, options, [&] { kernel(args...); });
}

// What simt.h builds CUDA's names from; meaningful only inside a kernel.
struct Place {
  Index3 thread, block, block_dim, grid_dim;
  unsigned lane = 0;
};
const Place& Here();
void* DynamicShared();
void BlockBarrier(Site site);
void NamedBarrier(int id, int count, bool wait, Site site);
void WarpBarrier(unsigned mask);
// Every lane of `mask` posts `bytes` (at most 64); all32 receives 32 slots, poison where no lane
// is.
void WarpGather(unsigned mask, const void* mine, std::size_t bytes, void* all32);
void CopyLater(void* to, const void* from, std::size_t bytes);  // lands at the wait
void CloseCopyGroup();
void LandCopies(int still_pending, Site site);
void OnAccess(const void* address, std::size_t bytes, bool write);  // from the hooks

}  // namespace k3::simt
