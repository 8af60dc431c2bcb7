// For the tests of this folder: directories that vanish, and checkpoints with chosen faults.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include <gtest/gtest.h>

#include "runtime/weights/make/make_model.h"

namespace k3::runtime {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "k3-weights-XXXXXX").string();
    K3_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string Slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void Spill(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline MakeOptions OptionsFor(const std::string& preset_name, const std::string& dir) {
  const std::optional<Preset> preset = FindPreset(preset_name);
  K3_CHECK(preset.has_value());
  MakeOptions options;
  options.config_json = preset->config_json;
  options.config_path = preset_name;
  options.layout = preset->layout;
  options.dir = dir;
  return options;
}

inline std::string MakePreset(const std::string& preset_name, const std::string& dir) {
  const Result<MadeModel> made = MakeModel(OptionsFor(preset_name, dir));
  EXPECT_TRUE(made.ok()) << made.error().message;
  return dir;
}

constexpr std::size_t kLengthBytes = 8;

inline std::string LengthPrefix(std::uint64_t length) {
  std::string prefix;
  for (int i = 0; i < 8; ++i) prefix += static_cast<char>((length >> (8 * i)) & 0xff);
  return prefix;
}

inline std::uint64_t HeaderLength(const std::string& file) {
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(file[i]);
  }
  return length;
}

// Rewrites a file's header (padded to 8 bytes again) and lets `edit` change its data as well.
inline void EditFile(
    const std::string& path,
    const std::function<void(nlohmann::ordered_json& header, std::string& data)>& edit) {
  const std::string file = Slurp(path);
  const std::uint64_t length = HeaderLength(file);
  nlohmann::ordered_json header = nlohmann::ordered_json::parse(file.substr(kLengthBytes, length));
  std::string data = file.substr(kLengthBytes + length);
  edit(header, data);
  std::string json = header.dump();
  json.resize((json.size() + 7) / 8 * 8, ' ');
  Spill(path, LengthPrefix(json.size()) + json + data);
}

}  // namespace k3::runtime
