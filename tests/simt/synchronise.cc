#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "kernels/base/check.h"
#include "tests/simt/machine_parts.h"

namespace k3::simt {

// Called on the fiber's own stack, from inside a Pause.
void Machine::Block() {
  Fiber& self = *current_;
  self.state = State::kBlocked;
  k3_simt_switch(&self.stack_pointer, scheduler_);
  watching_ = false;
}

void Machine::Release(Barrier& barrier) {
  for (Fiber* fiber : barrier.waiting) {
    fiber->clock = barrier.clock;
    ++fiber->clock[fiber->linear];
    if (fiber->state == State::kBlocked) Push(fiber->linear);
    fiber->state = State::kReady;
  }
  barrier = {{}, 0, Clock(num_threads())};
}

bool Machine::Omitted(Site site) {
  const auto found = std::find_if(sites_.begin(), sites_.end(), [&](const Site& known) {
    return known.line == site.line && std::strcmp(known.file, site.file) == 0;
  });
  const auto index = static_cast<int>(found - sites_.begin());
  if (found == sites_.end()) sites_.push_back(site);
  return index == options_.omit_site;
}

void Machine::Meet(int id, unsigned count, bool wait, Site site) {
  const Pause pause(*this);
  if (Omitted(site)) return;
  Fiber& self = *current_;
  Barrier& barrier = barriers_[static_cast<std::size_t>(id)];
  self.site = site;
  for (const Fiber* other : barrier.waiting) {
    if (other->site.line == site.line && std::strcmp(other->site.file, site.file) == 0) continue;
    ++report_.divergent;
    Note("barrier " + std::to_string(id) + " reached from " + Where(other->site) + " and " +
         Where(site));
    break;
  }
  Join(barrier.clock, self.clock);
  ++barrier.arrived;
  if (wait) barrier.waiting.push_back(&self);
  if (barrier.arrived == count) {
    Release(barrier);
  } else if (wait) {
    Block();
  }
  if (!wait) ++self.clock[self.linear];
}

void Machine::MeetWarp(unsigned mask) {
  const Pause pause(*this);
  Fiber& self = *current_;
  const unsigned first = self.linear / kWarpLanes * kWarpLanes;
  const unsigned lanes = std::min(kWarpLanes, num_threads() - first);
  if (lanes < kWarpLanes) mask &= (1U << lanes) - 1;
  unsigned& arrived = warp_arrived_[self.linear / kWarpLanes];
  arrived |= 1U << self.place.lane;
  if ((arrived & mask) != mask) {
    self.site = {"a warp-wide operation", 0};
    Block();
    return;
  }
  arrived &= ~mask;
  Clock joined(num_threads());
  std::array<std::byte, kSlotBytes * kWarpLanes> slots;
  slots.fill(std::byte{kPoison});
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const Fiber& fiber = fibers_[first + lane];
    if ((mask >> lane & 1U) == 0) continue;
    Join(joined, fiber.clock);
    std::copy(fiber.posted.begin(), fiber.posted.end(), slots.begin() + lane * kSlotBytes);
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    Fiber& fiber = fibers_[first + lane];
    if ((mask >> lane & 1U) == 0) continue;
    fiber.clock = joined;
    ++fiber.clock[fiber.linear];
    fiber.received = slots;
    if (fiber.state == State::kBlocked) Push(fiber.linear);
    fiber.state = State::kReady;
  }
}

void Machine::Gather(unsigned mask, const void* mine, std::size_t bytes, void* all32) {
  K3_CHECK(bytes <= kSlotBytes);
  watching_ = false;
  Fiber& self = *current_;
  std::memcpy(self.posted.data(), mine, bytes);
  MeetWarp(mask);
  const Pause pause(*this);
  for (std::size_t lane = 0; lane < kWarpLanes; ++lane) {
    std::memcpy(static_cast<std::byte*>(all32) + lane * bytes,
                self.received.data() + lane * kSlotBytes, bytes);
  }
}

void Machine::CopyLater(const PendingCopy& copy) {
  OnAccess(copy.to, copy.bytes, true);
  const Pause pause(*this);
  std::memset(copy.to, kPoison, copy.bytes);
  current_->copies.push_back(copy);
  current_->copies.back().group = current_->copy_group;
}

void Machine::Commit() {
  for (PendingCopy& copy : current_->copies) copy.committed = true;
  ++current_->copy_group;
}

void Machine::Land(const PendingCopy& copy) {
  std::memcpy(copy.to, copy.from, copy.bytes);
}

void Machine::WaitForCopies(int still_pending, Site site) {
  const Pause pause(*this);
  if (Omitted(site)) return;
  Fiber& self = *current_;
  std::erase_if(self.copies, [&](const PendingCopy& copy) {
    const bool done = copy.committed && copy.group < self.copy_group - still_pending;
    if (done) Land(copy);
    return done;
  });
}

void Machine::OnAccess(const void* address, std::size_t bytes, bool write) {
  if (!watching_) return;
  const Pause pause(*this);
  const Access access = {current_->linear, &current_->clock, address, bytes, write};
  if (const std::optional<std::string> race = races_.Check(access)) {
    ++report_.races;
    Note(*race);
  }
}

const Place& Here() {
  return Running()->place();
}
void* DynamicShared() {
  return Running()->dynamic_shared();
}
void BlockBarrier(Site site) {
  Running()->MeetBlock(site);
}
void NamedBarrier(int id, int count, bool wait, Site site) {
  Running()->MeetNamed(id, static_cast<unsigned>(count), wait, site);
}
void WarpBarrier(unsigned mask) {
  Running()->MeetWarp(mask);
}
void WarpGather(unsigned mask, const void* mine, std::size_t bytes, void* all32) {
  Running()->Gather(mask, mine, bytes, all32);
}
void CopyLater(void* to, const void* from, std::size_t bytes) {
  Running()->CopyLater({to, from, bytes, 0, false});
}
void CloseCopyGroup() {
  Running()->Commit();
}
void LandCopies(int still_pending, Site site) {
  Running()->WaitForCopies(still_pending, site);
}
void OnAccess(const void* address, std::size_t bytes, bool write) {
  if (Running() != nullptr) Running()->OnAccess(address, bytes, write);
}

}  // namespace k3::simt
