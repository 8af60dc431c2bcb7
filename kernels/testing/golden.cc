#include "kernels/testing/golden.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace k3::kernels {

std::optional<std::string> GoldenDir() {
  const char* shared = std::getenv("K3_SHARED");
  if (shared == nullptr) return std::nullopt;
  return std::string(shared) + "/golden";
}

std::optional<GoldenFile> GoldenFile::Open(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    std::printf("NOT RUN: no file %s\n", path.c_str());
    return std::nullopt;
  }
  GoldenFile file;
  file.bytes_.assign(std::istreambuf_iterator<char>(stream), {});
  std::uint64_t header = 0;
  K3_CHECK(file.bytes_.size() >= sizeof header);
  std::memcpy(&header, file.bytes_.data(), sizeof header);
  K3_CHECK(sizeof header + header <= file.bytes_.size());
  const auto json = nlohmann::json::parse(file.bytes_.substr(sizeof header, header), nullptr,
                                          /*allow_exceptions=*/false);
  K3_CHECK(json.is_object());
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    Entry entry;
    entry.dtype = value.at("dtype").get<std::string>();
    entry.shape = value.at("shape").get<std::vector<std::int64_t>>();
    entry.begin = sizeof header + header + value.at("data_offsets").at(0).get<std::size_t>();
    entry.end = sizeof header + header + value.at("data_offsets").at(1).get<std::size_t>();
    K3_CHECK(entry.begin <= entry.end);
    K3_CHECK(entry.end <= file.bytes_.size());
    file.entries_[name] = entry;
  }
  return file;
}

std::optional<GoldenFile> GoldenFile::OpenShared(const std::string& relative) {
  const std::optional<std::string> directory = GoldenDir();
  if (!directory) {
    std::printf("NOT RUN: K3_SHARED is not set, so there is no %s\n", relative.c_str());
    return std::nullopt;
  }
  return Open(*directory + "/" + relative);
}

const GoldenFile::Entry& GoldenFile::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) std::fprintf(stderr, "no tensor %s\n", name.c_str());
  K3_CHECK(found != entries_.end());
  return found->second;
}

const std::vector<std::int64_t>& GoldenFile::Shape(const std::string& name) const {
  return Find(name).shape;
}

void GoldenFile::CopyOut(const std::string& name, const char* dtype, void* out,
                         std::size_t bytes) const {
  const Entry& entry = Find(name);
  if (entry.dtype != dtype) std::fprintf(stderr, "%s is %s\n", name.c_str(), entry.dtype.c_str());
  K3_CHECK(entry.dtype == dtype);
  K3_CHECK(entry.end - entry.begin == bytes);
  std::memcpy(out, bytes_.data() + entry.begin, bytes);
}

}  // namespace k3::kernels
