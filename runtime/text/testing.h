// What the tests of this room share: where golden data lies, and how to read it. Tests only.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/text/tokenizer.h"

namespace k3::runtime::testing {

inline constexpr const char* kMicro = "tests/golden/k3-micro";

// A path below K3_SHARED; nothing, and a NOT RUN line, where it is not there.
std::optional<std::string> SharedPath(const std::string& relative);

// The lines of a .jsonl file.
std::vector<nlohmann::json> ReadJsonLines(const std::string& path);

// The cut in tests/golden, then the whole file of K3_SHARED where it is.
std::vector<std::string> GoldenFiles(const std::string& name);

Tokenizer LoadMicro();
Tokenizer FromRanks(const std::string& path);

// A random engine whose seed is printed; K3_SEED repeats a run.
std::mt19937 PrintedSeed();

// A folder that is gone, with its files, when the test ends.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  void Write(const std::string& name, const std::string& text) const;
  std::string path(const std::string& name = "") const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// The text of an error of `result`, or "" for a value.
template <typename T>
std::string MessageOf(const Result<T>& result) {
  return result.ok() ? "" : result.error().message;
}

std::string Base64(const std::string& bytes);

// A tiktoken.model: the 256 bytes in order, then `merges` from rank 256.
std::string RankFile(const std::vector<std::string>& merges);

}  // namespace k3::runtime::testing
