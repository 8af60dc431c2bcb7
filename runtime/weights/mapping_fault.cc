#include "runtime/weights/mapping_fault.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <signal.h>
#include <unistd.h>
#include <utility>

namespace k3::runtime {
namespace {

constexpr std::size_t kMaxMappings = 1024;  // the release has 96
constexpr std::size_t kMaxPath = 512;       // the tail of a longer path is kept

// `begin` is published last and cleared first: the handler reads a slot only while it is nonzero.
struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<std::uintptr_t> begin{0};
  std::size_t size = 0;
  std::size_t path_length = 0;
  std::array<char, kMaxPath> path{};
};
using Table = std::array<Slot, kMaxMappings>;

// Built before anything can fault, because a mapping registers itself through here.
Table& MappingTable() {
  static Table table;
  return table;
}

// A message assembled without the heap.
class SignalText {
 public:
  void Add(std::string_view text) {
    const std::size_t length = std::min(text.size(), buffer_.size() - length_);
    std::memcpy(buffer_.data() + length_, text.data(), length);
    length_ += length;
  }
  void Add(std::uint64_t number) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    Add({digits.data(), static_cast<std::size_t>(end - digits.data())});
  }
  void WriteToStderr() const {
    // There is nobody left to tell about a failed write.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, buffer_.data(), length_);
  }

 private:
  std::array<char, 1024> buffer_{};
  std::size_t length_ = 0;
};

[[noreturn]] void ReportAndExit(const Slot& slot, std::uint64_t offset) {
  SignalText text;
  text.Add("fatal: ");
  text.Add({slot.path.data(), slot.path_length});
  text.Add(": cannot read byte ");
  text.Add(offset);
  text.Add(" of ");
  text.Add(slot.size);
  text.Add(": the file was truncated while it was in use, or its disk failed (SIGBUS)\n");
  text.WriteToStderr();
  _exit(kMappingFaultExitCode);
}

void OnBusError(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Slot& slot : MappingTable()) {
    const std::uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    if (begin != 0 && address >= begin && address - begin < slot.size) {
      ReportAndExit(slot, address - begin);
    }
  }
  // Not ours: with the default action back, returning repeats the fault and ends the process.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

void InstallMappingFaultHandler() {
  MappingTable();
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

MappingRegistration::MappingRegistration(const void* begin, std::size_t size,
                                         std::string_view path) {
  Table& table = MappingTable();
  for (std::size_t index = 0; index < table.size(); ++index) {
    Slot& slot = table[index];
    if (slot.taken.exchange(true)) continue;
    const std::size_t length = std::min(path.size(), kMaxPath);
    std::memcpy(slot.path.data(), path.data() + (path.size() - length), length);
    slot.path_length = length;
    slot.size = size;
    slot.begin.store(reinterpret_cast<std::uintptr_t>(begin), std::memory_order_release);
    slot_ = index;
    return;
  }
}

MappingRegistration::~MappingRegistration() {
  if (!slot_) return;
  Slot& slot = MappingTable()[*slot_];
  slot.begin.store(0, std::memory_order_release);
  slot.taken.store(false, std::memory_order_release);
}

MappingRegistration::MappingRegistration(MappingRegistration&& other) noexcept
    : slot_(std::exchange(other.slot_, std::nullopt)) {}

MappingRegistration& MappingRegistration::operator=(MappingRegistration&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

}  // namespace k3::runtime
