#include "tests/simt/race_detector.h"

#include <algorithm>

namespace k3::simt {
namespace {

constexpr std::size_t kWordBytes = 2;

bool Unordered(std::uint32_t thread, std::uint32_t epoch, const Access& access) {
  return epoch != 0 && thread != access.thread && epoch > (*access.clock)[thread];
}

std::string Sentence(const Access& access, const char* other_did, std::uint32_t other) {
  return "thread " + std::to_string(access.thread) + (access.write ? " writes" : " reads") +
         " after an unordered " + other_did + " by thread " + std::to_string(other);
}

}  // namespace

void Join(Clock& into, const Clock& from) {
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

void RaceDetector::Watch(const std::byte* begin, const std::byte* end) {
  const auto bytes = static_cast<std::size_t>(end - begin);
  regions_.push_back({begin, end, std::vector<Shadow>(bytes / kWordBytes + 1)});
}

std::optional<std::string> RaceDetector::Check(const Access& access) {
  const auto* const address = static_cast<const std::byte*>(access.address);
  for (Region& region : regions_) {
    if (address < region.begin || address >= region.end) continue;
    const auto offset = static_cast<std::size_t>(address - region.begin);
    std::optional<std::string> found;
    const std::size_t last =
        std::min((offset + access.bytes - 1) / kWordBytes, region.shadows.size() - 1);
    for (std::size_t word = offset / kWordBytes; word <= last; ++word) {
      std::optional<std::string> here = CheckWord(region.shadows[word], access);
      if (here && !found) found = "shared byte +" + std::to_string(offset) + ": " + *here;
    }
    return found;
  }
  return std::nullopt;
}

std::optional<std::string> RaceDetector::CheckWord(Shadow& shadow, const Access& access) {
  std::optional<std::string> found;
  const std::uint32_t epoch = (*access.clock)[access.thread];
  if (Unordered(shadow.write_thread, shadow.write_epoch, access)) {
    found = Sentence(access, "write", shadow.write_thread);
  }
  if (!access.write) {
    if (shadow.read_thread != access.thread) {
      shadow.older_thread = shadow.read_thread;
      shadow.older_epoch = shadow.read_epoch;
    }
    shadow.read_thread = access.thread;
    shadow.read_epoch = epoch;
    return found;
  }
  if (Unordered(shadow.read_thread, shadow.read_epoch, access)) {
    found = Sentence(access, "read", shadow.read_thread);
  } else if (Unordered(shadow.older_thread, shadow.older_epoch, access)) {
    found = Sentence(access, "read", shadow.older_thread);
  }
  shadow = {.write_thread = access.thread, .write_epoch = epoch};
  return found;
}

}  // namespace k3::simt
