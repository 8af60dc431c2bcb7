#include "runtime/text/rank_table.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <functional>
#include <utility>

#include "runtime/config/fault_list.h"
#include "runtime/config/read_file.h"
#include "runtime/text/base64.h"

namespace k3::runtime {
namespace {

constexpr std::int32_t kFree = -1;

std::string Hex(std::uint8_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return std::string("0x") + kDigits[byte >> 4] + kDigits[byte & 15];
}

}  // namespace

// Turns the lines of one file into a table, and keeps the faults on the way.
class RankReader {
 public:
  explicit RankReader(const std::string& path) : path_(path) {}

  Result<RankTable> Read(std::string_view text) {
    ReadLines(text);
    if (faults_.empty()) OrderByRank();
    if (faults_.empty()) FillTable();
    if (faults_.empty()) FillIndex();
    if (!faults_.empty()) return faults_.ToError();
    return std::move(table_);
  }

 private:
  struct Entry {
    std::int32_t rank;
    int line;
    std::string bytes;
  };

  bool full() const { return faults_.count() >= RankTable::kMaxFaults; }

  void Fault(int line, const std::string& what) {
    if (full()) return;
    faults_.Add(Code::kInvalidArgument, path_ + ":" + std::to_string(line) + ": " + what);
    if (full()) faults_.Add(Code::kInvalidArgument, path_ + ": more faults are not listed");
  }

  void ReadLines(std::string_view text) {
    int line = 0;
    while (!text.empty() && !full()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      ReadLine(++line, text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (line == 0) Fault(1, "the file is empty, expected lines \"<base64> <rank>\"");
  }

  void ReadLine(int line, std::string_view text) {
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos) {
      return Fault(line, "no space, expected \"<base64> <rank>\"");
    }
    std::optional<std::string> bytes = DecodeBase64(text.substr(0, space));
    if (!bytes || bytes->empty()) Fault(line, "the token is not valid base64 of one byte or more");
    const std::string_view digits = text.substr(space + 1);
    std::int32_t rank = -1;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
    if (!whole || rank < 0 || rank >= (1 << RankTable::kIdBits)) {
      return Fault(line, "the rank \"" + std::string(digits.substr(0, 40)) +
                             "\" is not a whole number in 0.." +
                             std::to_string((1 << RankTable::kIdBits) - 1));
    }
    if (bytes) entries_.push_back({rank, line, std::move(*bytes)});
  }

  // Law 1 for ranks: sorted, entry i has rank i.
  void OrderByRank() {
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.rank < b.rank; });
    std::int32_t expected = 0;
    const Entry* previous = nullptr;
    for (const Entry& entry : entries_) {
      if (entry.rank < expected) {
        Fault(entry.line, "rank " + std::to_string(entry.rank) + " was already given in line " +
                              std::to_string(previous->line));
      } else if (entry.rank > expected) {
        Fault(entry.line, "rank " + std::to_string(entry.rank) + " follows a gap: rank " +
                              std::to_string(expected) + " is in no line");
      }
      expected = entry.rank + 1;
      previous = &entry;
    }
  }

  void FillTable() {
    for (const Entry& entry : entries_) {
      table_.starts_.push_back(static_cast<std::uint32_t>(table_.arena_.size()));
      table_.arena_ += entry.bytes;
    }
    table_.starts_.push_back(static_cast<std::uint32_t>(table_.arena_.size()));
    table_.slots_.assign(std::bit_ceil(entries_.size() * 2), kFree);
  }

  // Law 1 for byte strings, and law 2.
  void FillIndex() {
    for (std::int32_t id = 0; id < table_.size(); ++id) {
      std::int32_t& slot = table_.slots_[table_.SlotOf(table_.bytes(id))];
      if (slot != kFree) {
        Fault(LineOf(id), "the token was already given in line " + std::to_string(LineOf(slot)));
        continue;
      }
      slot = id;
    }
    for (int value = 0; value < 256; ++value) {
      const auto byte = static_cast<std::uint8_t>(value);
      const char text = static_cast<char>(byte);
      const std::optional<std::int32_t> id = table_.Find({&text, 1});
      if (!id) Fault(static_cast<int>(entries_.size()), "no line gives the byte " + Hex(byte));
      table_.byte_ids_[byte] = id.value_or(kFree);
    }
  }

  int LineOf(std::int32_t id) const { return entries_[static_cast<std::size_t>(id)].line; }

  const std::string& path_;
  FaultList faults_;
  std::vector<Entry> entries_;
  RankTable table_;
};

Result<RankTable> RankTable::Parse(std::string_view text, const std::string& path) {
  return RankReader(path).Read(text);
}

Result<RankTable> RankTable::Load(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kMaxBytes);
  if (!text.ok()) return text.error();
  return Parse(text.value(), path);
}

std::string_view RankTable::bytes(std::int32_t id) const {
  const auto index = static_cast<std::size_t>(id);
  K3_CHECK(index + 1 < starts_.size());
  return std::string_view(arena_).substr(starts_[index], starts_[index + 1] - starts_[index]);
}

std::size_t RankTable::SlotOf(std::string_view bytes) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>()(bytes) & mask;
  while (slots_[slot] != kFree && this->bytes(slots_[slot]) != bytes) slot = (slot + 1) & mask;
  return slot;
}

std::optional<std::int32_t> RankTable::Find(std::string_view bytes) const {
  const std::int32_t id = slots_[SlotOf(bytes)];
  if (id == kFree) return std::nullopt;
  return id;
}

}  // namespace k3::runtime
