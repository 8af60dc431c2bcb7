#include <algorithm>
#include <string>
#include <vector>

#include "kernels/base/check.h"
#include "tests/simt/machine_parts.h"

// The linker's names for the section in which __shared__ arrays lie; null where there are none.
// NOLINTBEGIN(bugprone-reserved-identifier,cppcoreguidelines-avoid-non-const-global-variables)
extern "C" std::byte __start_simt_shared[] __attribute__((weak));
extern "C" std::byte __stop_simt_shared[] __attribute__((weak));
// NOLINTEND(bugprone-reserved-identifier,cppcoreguidelines-avoid-non-const-global-variables)

namespace k3::simt {

Machine*& Running() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
  static Machine* machine = nullptr;
  return machine;
}

std::string Where(Site site) {
  return std::string(site.file) + ":" + std::to_string(site.line);
}

std::uint64_t Machine::Random() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_;
}

// About once in eight turns of every thread.
std::uint64_t Machine::StepsToDrop() {
  const std::uint64_t turns = 8 * std::max<std::uint64_t>(num_threads(), 1);
  return 1 + Random() % turns;
}

void Machine::Note(const std::string& what) {
  if (report_.first.empty()) report_.first = what;
}

void Machine::FiberMain() {
  Machine& machine = *Running();
  machine.watching_ = true;
  machine.body_();
  machine.watching_ = false;
  Fiber& self = *machine.current_;
  self.state = State::kDone;
  for (const PendingCopy& copy : self.copies) machine.Land(copy);
  ++machine.num_done_;
  k3_simt_switch(&self.stack_pointer, machine.scheduler_);
}

Report Machine::Run() {
  stacks_.resize(num_threads());
  for (unsigned block = 0; block < shape_.grid.count(); ++block) {
    StartBlock(block);
    RunBlock();
  }
  report_.sites = static_cast<int>(sites_.size());
  return report_;
}

void Machine::StartBlock(unsigned block) {
  races_.Forget();
  if (__start_simt_shared != nullptr) {
    std::fill(__start_simt_shared, __stop_simt_shared, std::byte{kPoison});
    races_.Watch(__start_simt_shared, __stop_simt_shared);
  }
  shared_.assign(shape_.shared_bytes + kSharedAlign, std::byte{kPoison});
  races_.Watch(shared_.data(), shared_.data() + shared_.size());
  warp_arrived_.assign((num_threads() + kWarpLanes - 1) / kWarpLanes, 0);
  for (Barrier& barrier : barriers_) barrier = {{}, 0, Clock(num_threads())};
  num_done_ = 0;
  const Index3& grid = shape_.grid;
  const Index3 place(block % grid.x, block / grid.x % grid.y, block / grid.x / grid.y);
  fibers_.assign(num_threads(), Fiber{});
  for (unsigned thread = 0; thread < num_threads(); ++thread) StartFiber(thread, place);
  DrawPriorities();
}

void Machine::StartFiber(unsigned thread, const Index3& block) {
  const Index3& dim = shape_.block;
  Fiber& fiber = fibers_[thread];
  fiber.linear = thread;
  fiber.place.thread = {thread % dim.x, thread / dim.x % dim.y, thread / dim.x / dim.y};
  fiber.place.block = block;
  fiber.place.block_dim = dim;
  fiber.place.grid_dim = shape_.grid;
  fiber.place.lane = thread % kWarpLanes;
  fiber.clock.assign(num_threads(), 0);
  fiber.clock[thread] = 1;
  fiber.stack_pointer = stacks_[thread].Prepare(FiberMain);
}

void Machine::DrawPriorities() {
  priorities_.assign(num_threads(), 0);
  std::vector<std::uint64_t> warps;
  while (warps.size() < warp_arrived_.size()) warps.push_back(Random() & 0xffffff);
  turns_.clear();
  for (unsigned thread = 0; thread < num_threads(); ++thread) {
    switch (options_.order) {
      case Order::kForward:
        priorities_[thread] = num_threads() - thread;
        break;
      case Order::kReverse:
        priorities_[thread] = thread + 1;
        break;
      case Order::kRandom:
        priorities_[thread] = warps[thread / kWarpLanes] << 24 | (Random() & 0xffffff);
        break;
    }
    Push(thread);
  }
  drops_left_ = options_.order == Order::kRandom ? kPriorityDrops : 0;
  steps_ = 0;
  drop_at_ = StepsToDrop();
}

void Machine::Push(unsigned thread) {
  turns_.emplace_back(priorities_[thread], thread);
  std::push_heap(turns_.begin(), turns_.end());
}

void Machine::RunBlock() {
  for (unsigned left = num_threads(); left > 0;) {
    if (turns_.empty()) {
      ++report_.deadlocks;
      for (const Fiber& fiber : fibers_) {
        if (fiber.state != State::kBlocked) continue;
        Note("deadlock: thread " + std::to_string(fiber.linear) + " waits at " + Where(fiber.site) +
             "; " + std::to_string(num_done_) + " threads are done");
      }
      return;
    }
    std::pop_heap(turns_.begin(), turns_.end());
    Fiber& fiber = fibers_[turns_.back().second];
    turns_.pop_back();
    if (fiber.state != State::kReady) continue;
    current_ = &fiber;
    ++report_.switches;
    k3_simt_switch(&scheduler_, fiber.stack_pointer);
    MaybeDropWarp(fiber);
    if (fiber.state == State::kDone) {
      --left;
      FinishFiber(fiber);
    }
  }
}

// A thread that has ended no longer counts at the block's barrier.
void Machine::FinishFiber(const Fiber& fiber) {
  Barrier& barrier = barriers_[kBlockBarrier];
  if (barrier.arrived == 0 || barrier.arrived != num_threads() - num_done_) return;
  Join(barrier.clock, fiber.clock);
  Release(barrier);
}

void Machine::MaybeDropWarp(const Fiber& fiber) {
  if (drops_left_ == 0 || ++steps_ != drop_at_) return;
  --drops_left_;
  drop_at_ += StepsToDrop();
  const unsigned first = fiber.linear / kWarpLanes * kWarpLanes;
  for (unsigned lane = first; lane < std::min(first + kWarpLanes, num_threads()); ++lane) {
    priorities_[lane] = static_cast<std::uint64_t>(drops_left_) + 1;
  }
}

Report RunGrid(const Shape& shape, const Options& options, const std::function<void()>& body) {
  K3_CHECK(Running() == nullptr);
  Machine machine(shape, options, body);
  Running() = &machine;
  Report report = machine.Run();
  Running() = nullptr;
  return report;
}

}  // namespace k3::simt
