// Vector clocks over shared memory, a shadow per two bytes (a bf16 has neighbours of its own).
//   1. Two accesses race when one is a write and neither happened before the other.
//   2. The caller owns the clocks: a barrier joins those who meet and starts a new epoch of each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace k3::simt {

using Clock = std::vector<std::uint32_t>;  // [thread] last epoch of that thread known to have ended

void Join(Clock& into, const Clock& from);

struct Access {
  unsigned thread;
  const Clock* clock;
  const void* address;
  std::size_t bytes;
  bool write;
};

class RaceDetector {
 public:
  // Watches [begin, end) as the next region and forgets what was accessed in it.
  void Watch(const std::byte* begin, const std::byte* end);
  void Forget() { regions_.clear(); }

  // A sentence when the access races, empty otherwise or where the address is not watched.
  std::optional<std::string> Check(const Access& access);

 private:
  struct Shadow {
    std::uint32_t write_thread = 0, write_epoch = 0;  // epoch 0: never
    std::uint32_t read_thread = 0, read_epoch = 0;
    // The other reader of the same word, kept so that a second reader does not hide the first.
    std::uint32_t older_thread = 0, older_epoch = 0;
  };
  struct Region {
    const std::byte* begin;
    const std::byte* end;
    std::vector<Shadow> shadows;
  };

  static std::optional<std::string> CheckWord(Shadow& shadow, const Access& access);

  std::vector<Region> regions_;
};

}  // namespace k3::simt
