// Reads the fields of one JSON object of config.json and notes every fault instead of stopping at
// the first. Private to runtime/config.
//   1. A field that is absent, of the wrong type or out of range becomes one fault.
//   2. Such a field then reads as kUnknown (numbers: NaN), so checks across fields can skip it.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/fault_list.h"

namespace k3::runtime {

inline constexpr int kUnknown = -1;  // no legal field of ours is negative

struct IntRange {
  int lowest;
  int highest;
};
struct NumberRange {
  double above;    // exclusive
  double at_most;  // inclusive
};

class FieldReader {
 public:
  // `object`, `path` and `faults` outlive the reader; `prefix` is "" or "text_config.".
  FieldReader(const nlohmann::json& object, const std::string& path, std::string prefix,
              FaultList& faults)
      : object_(object), path_(path), prefix_(std::move(prefix)), faults_(faults) {}

  int Int(const std::string& key, IntRange range);
  float Number(const std::string& key, NumberRange range);
  bool Bool(const std::string& key);
  std::vector<int> Ints(const std::string& key, IntRange each);
  // One whole number or a list of them.
  std::vector<int> IntOrInts(const std::string& key, IntRange each);
  // The field must be there and have exactly this value: we build nothing else.
  void MustBe(const std::string& key, const nlohmann::json& expected);
  std::optional<FieldReader> Child(const std::string& key);
  // The only member of an object, whatever its name.
  std::optional<FieldReader> OnlyChild(const std::string& key);

  bool Has(const std::string& key) const { return object_.contains(key); }
  // A fault of this object's `key`, in our one format.
  void Fault(const std::string& key, const std::string& expected);

 private:
  const nlohmann::json* Find(const std::string& key) const;

  const nlohmann::json& object_;
  const std::string& path_;
  std::string prefix_;
  FaultList& faults_;
};

}  // namespace k3::runtime
