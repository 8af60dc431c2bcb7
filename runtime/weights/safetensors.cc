#include "runtime/weights/safetensors.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_set>

#include "runtime/config/fault_list.h"
#include "runtime/weights/header_sax.h"

namespace k3::runtime {
namespace {

constexpr std::uint64_t kLengthBytes = 8;

// Bytes of a shape, or nothing where they do not fit 64 bits.
std::optional<std::uint64_t> BytesOf(const StoredTensor& tensor) {
  std::uint64_t bytes = StoredElementBytes(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return {};
  }
  return bytes;
}

std::string RangeText(const StoredTensor& tensor) {
  return "[" + std::to_string(tensor.begin) + ", " + std::to_string(tensor.end) + ")";
}

void CheckRange(const StoredTensor& tensor, std::uint64_t data_bytes, const std::string& path,
                FaultList& faults) {
  const std::string where = path + ": " + tensor.name + ": ";
  if (tensor.begin > tensor.end || tensor.end > data_bytes) {
    return faults.Add(Code::kDataLoss, where + "found bytes " + RangeText(tensor) +
                                           ", expected a range inside the " +
                                           std::to_string(data_bytes) +
                                           " bytes of data this file has (is it truncated?)");
  }
  const std::optional<std::uint64_t> expected = BytesOf(tensor);
  if (expected && *expected == tensor.end - tensor.begin) return;
  faults.Add(Code::kDataLoss,
             where + "found " + std::to_string(tensor.end - tensor.begin) + " bytes, expected " +
                 (expected ? std::to_string(*expected) : "more than 2^64") + " for " +
                 std::string(tensor.dtype) + " " + ShapeText(tensor.shape));
}

void CheckUnique(const std::vector<StoredTensor>& tensors, const std::string& path,
                 FaultList& faults) {
  std::unordered_set<std::string_view> names;
  names.reserve(tensors.size());
  for (const StoredTensor& tensor : tensors) {
    if (names.insert(tensor.name).second) continue;
    faults.Add(Code::kDataLoss, path + ": " + tensor.name + ": listed twice in the header");
  }
}

// `tensors` are sorted by their bytes; each must begin where the one before it ended.
void CheckCover(const std::vector<StoredTensor>& tensors, std::uint64_t data_bytes,
                const std::string& path, FaultList& faults) {
  std::uint64_t position = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin != position) {
      faults.Add(Code::kDataLoss, path + ": " + tensor.name + ": found bytes " + RangeText(tensor) +
                                      ", expected a begin of " + std::to_string(position) +
                                      (tensor.begin < position ? " (overlap)" : " (gap)"));
    }
    position = tensor.end;
  }
  if (position == data_bytes) return;
  faults.Add(Code::kDataLoss, path + ": found " + std::to_string(data_bytes) +
                                  " bytes of data, expected " + std::to_string(position) +
                                  " by the header");
}

std::uint64_t DecodeLength(const std::array<char, kLengthBytes>& bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return length;
}

}  // namespace

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

Result<std::vector<StoredTensor>> ParseSafetensorsHeader(std::string_view json,
                                                         std::uint64_t data_bytes,
                                                         const std::string& path) {
  HeaderSax sax;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &sax)) {
    return Error{Code::kDataLoss, path + ": " + sax.fault()};
  }
  std::vector<StoredTensor> tensors = sax.TakeTensors();
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  FaultList faults;
  for (const StoredTensor& tensor : tensors) CheckRange(tensor, data_bytes, path, faults);
  CheckUnique(tensors, path, faults);
  // Where ranges are wrong in themselves, what they cover would only repeat it.
  if (faults.empty()) CheckCover(tensors, data_bytes, path, faults);
  if (!faults.empty()) return faults.ToError();
  return tensors;
}

Result<SafetensorsHeader> ReadSafetensorsHeader(const MappedFile& file) {
  std::array<char, kLengthBytes> prefix{};
  if (file.size() < kLengthBytes) {
    return Error{Code::kDataLoss, file.path() + ": found " + std::to_string(file.size()) +
                                      " bytes, expected a safetensors file (at least 8)"};
  }
  if (const Result<Ok> read = file.ReadAt(0, prefix); !read.ok()) return read.error();
  const std::uint64_t length = DecodeLength(prefix);
  const std::uint64_t most = std::min(kMaxHeaderBytes, file.size() - kLengthBytes);
  if (length > most) {
    return Error{Code::kDataLoss, file.path() + ": found a header length of " +
                                      std::to_string(length) + ", expected at most " +
                                      std::to_string(most) + " in a file of " +
                                      std::to_string(file.size()) + " bytes"};
  }
  SafetensorsHeader header;
  header.data_start = kLengthBytes + length;
  header.json.resize(length);
  if (const Result<Ok> read = file.ReadAt(kLengthBytes, header.json); !read.ok()) {
    return read.error();
  }
  Result<std::vector<StoredTensor>> tensors =
      ParseSafetensorsHeader(header.json, file.size() - header.data_start, file.path());
  if (!tensors.ok()) return tensors.error();
  header.tensors = std::move(tensors).value();
  return header;
}

}  // namespace k3::runtime
