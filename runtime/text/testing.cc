#include "runtime/text/testing.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace k3::runtime::testing {

std::optional<std::string> SharedPath(const std::string& relative) {
  const char* shared = std::getenv("K3_SHARED");
  const std::filesystem::path path = std::filesystem::path(shared ? shared : "") / relative;
  if (shared != nullptr && std::filesystem::exists(path)) return path.string();
  std::printf("NOT RUN: no %s below K3_SHARED\n", relative.c_str());
  return std::nullopt;
}

std::vector<nlohmann::json> ReadJsonLines(const std::string& path) {
  std::vector<nlohmann::json> cases;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) cases.push_back(nlohmann::json::parse(line));
  K3_CHECK(!cases.empty());
  return cases;
}

std::vector<std::string> GoldenFiles(const std::string& name) {
  std::vector<std::string> files = {"tests/golden/" + name};
  if (auto whole = SharedPath("golden/" + name)) files.push_back(*std::move(whole));
  return files;
}

Tokenizer LoadMicro() {
  return Tokenizer::Load(kMicro).value();
}

Tokenizer FromRanks(const std::string& path) {
  return Tokenizer(Vocabulary::LoadRanks(path).value());
}

std::mt19937 PrintedSeed() {
  const char* given = std::getenv("K3_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::atol(given)) : std::random_device()();
  std::printf("K3_SEED=%u\n", seed);
  return std::mt19937(seed);
}

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "k3_text_XXXXXX").string();
  K3_CHECK(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TempFolder::Write(const std::string& name, const std::string& text) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
}

std::string Base64(const std::string& bytes) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = (bits << 8) | (i < count ? static_cast<std::uint8_t>(bytes[at + i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= count ? kDigits[(bits >> (18 - 6 * i)) & 63U] : '=';
    }
  }
  return text;
}

std::string RankFile(const std::vector<std::string>& merges) {
  std::string file;
  int rank = 0;
  for (int byte = 0; byte < 256; ++byte) {
    file += Base64(std::string(1, static_cast<char>(byte))) + " " + std::to_string(rank++) + "\n";
  }
  for (const std::string& merge : merges) {
    file += Base64(merge) + " " + std::to_string(rank++) + "\n";
  }
  return file;
}

}  // namespace k3::runtime::testing
