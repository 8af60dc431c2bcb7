// The machine's parts, shared by scheduler.cc (who runs next) and synchronise.cc (who waits for
// whom). Nobody else includes this; machine.h is the door.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/simt/fiber.h"
#include "tests/simt/machine.h"
#include "tests/simt/race_detector.h"

namespace k3::simt {

inline constexpr unsigned kWarpLanes = 32;
inline constexpr std::size_t kSlotBytes = 64;  // what one lane may post in a warp exchange
inline constexpr std::size_t kSharedAlign = 128;
inline constexpr int kBlockBarrier = 16;        // after the sixteen named ones
inline constexpr int kPriorityDrops = 3;        // moments at which the running warp loses its turn
inline constexpr unsigned char kPoison = 0xFF;  // NaN as float and bf16, -1 as int

struct PendingCopy {
  void* to;
  const void* from;
  std::size_t bytes;
  int group;
  bool committed;
};

enum class State { kReady, kBlocked, kDone };

struct Fiber {
  Place place;
  unsigned linear = 0;
  State state = State::kReady;
  void* stack_pointer = nullptr;
  Site site = {"the start", 0};
  Clock clock;
  std::vector<PendingCopy> copies;
  int copy_group = 0;
  std::array<std::byte, kSlotBytes> posted = {};
  std::array<std::byte, kSlotBytes* kWarpLanes> received = {};
};

struct Barrier {
  std::vector<Fiber*> waiting;
  unsigned arrived = 0;
  Clock clock;
};

class Machine {
 public:
  Machine(const Shape& shape, const Options& options, const std::function<void()>& body)
      : shape_(shape), options_(options), body_(body), random_(options.seed * kMix | 1) {}
  Report Run();

  const Place& place() const { return current_->place; }
  void* dynamic_shared() {
    return shared_.data() +
           (kSharedAlign - reinterpret_cast<std::uintptr_t>(shared_.data()) % kSharedAlign) %
               kSharedAlign;
  }
  void MeetBlock(Site site) { Meet(kBlockBarrier, num_threads() - num_done_, true, site); }
  void MeetNamed(int id, unsigned count, bool wait, Site site) { Meet(id, count, wait, site); }
  void MeetWarp(unsigned mask);
  void Gather(unsigned mask, const void* mine, std::size_t bytes, void* all32);
  void CopyLater(const PendingCopy& copy);
  void Commit();
  void WaitForCopies(int still_pending, Site site);
  void OnAccess(const void* address, std::size_t bytes, bool write);

 private:
  static constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15U;
  using Turn = std::pair<std::uint64_t, unsigned>;  // priority, thread

  // While it lives, the runtime's own accesses are not the kernel's.
  class Pause {
   public:
    explicit Pause(Machine& machine) : machine_(machine) { machine_.watching_ = false; }
    ~Pause() { machine_.watching_ = true; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Machine& machine_;
  };

  static void FiberMain();
  unsigned num_threads() const { return shape_.block.count(); }
  std::uint64_t Random();
  std::uint64_t StepsToDrop();
  void StartBlock(unsigned block);
  void StartFiber(unsigned thread, const Index3& block);
  void DrawPriorities();
  void RunBlock();
  void FinishFiber(const Fiber& fiber);
  void MaybeDropWarp(const Fiber& fiber);
  void Push(unsigned thread);
  void Block();
  void Release(Barrier& barrier);
  void Meet(int id, unsigned count, bool wait, Site site);
  bool Omitted(Site site);
  void Land(const PendingCopy& copy);
  void Note(const std::string& what);

  Shape shape_;
  Options options_;
  const std::function<void()>& body_;
  std::uint64_t random_;
  Report report_;
  RaceDetector races_;
  std::vector<Site> sites_;
  std::vector<FiberStack> stacks_;
  std::vector<std::byte> shared_;
  std::vector<Fiber> fibers_;
  std::vector<unsigned> warp_arrived_;
  std::array<Barrier, kBlockBarrier + 1> barriers_;
  std::vector<std::uint64_t> priorities_;
  std::vector<Turn> turns_;  // a heap
  std::uint64_t steps_ = 0;
  std::uint64_t drop_at_ = 0;
  int drops_left_ = 0;
  unsigned num_done_ = 0;
  Fiber* current_ = nullptr;
  void* scheduler_ = nullptr;
  bool watching_ = false;
};

// CUDA's names are free functions and a fiber has no argument, so one machine must be findable.
Machine*& Running();
std::string Where(Site site);

}  // namespace k3::simt
