#include "runtime/config/field_reader.h"

#include <cmath>
#include <limits>
#include <sstream>

namespace k3::runtime {
namespace {

// A value as it stands in the file, cut where it would flood the message.
std::string Shown(const nlohmann::json& value) {
  constexpr std::size_t kMaxShownValue = 80;
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxShownValue) text = text.substr(0, kMaxShownValue) + "...";
  return text;
}

std::string Shown(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string WholeNumber(IntRange range) {
  return "a whole number from " + std::to_string(range.lowest) + " to " +
         std::to_string(range.highest);
}

// JSON tells 5 from 5.0, and so do we: a size is never written as a fraction.
bool IsIntIn(const nlohmann::json& value, IntRange range) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    return number <= static_cast<std::uint64_t>(range.highest) &&
           static_cast<std::int64_t>(number) >= range.lowest;
  }
  if (!value.is_number_integer()) return false;
  const auto number = value.get<std::int64_t>();
  return number >= range.lowest && number <= range.highest;
}

}  // namespace

const nlohmann::json* FieldReader::Find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

void FieldReader::Fault(const std::string& key, const std::string& expected) {
  const nlohmann::json* value = Find(key);
  faults_.Add(Code::kInvalidArgument, path_ + ": " + prefix_ + key + ": found " +
                                          (value ? Shown(*value) : "nothing") + ", expected " +
                                          expected);
}

int FieldReader::Int(const std::string& key, IntRange range) {
  const nlohmann::json* value = Find(key);
  if (value != nullptr && IsIntIn(*value, range)) return value->get<int>();
  Fault(key, WholeNumber(range));
  return kUnknown;
}

float FieldReader::Number(const std::string& key, NumberRange range) {
  const nlohmann::json* value = Find(key);
  if (value != nullptr && value->is_number()) {
    const auto number = value->get<double>();
    if (number > range.above && number <= range.at_most) return static_cast<float>(number);
  }
  Fault(key, "a number above " + Shown(range.above) + ", at most " + Shown(range.at_most));
  return std::numeric_limits<float>::quiet_NaN();
}

bool FieldReader::Bool(const std::string& key) {
  const nlohmann::json* value = Find(key);
  if (value != nullptr && value->is_boolean()) return value->get<bool>();
  Fault(key, "true or false");
  return false;
}

std::vector<int> FieldReader::Ints(const std::string& key, IntRange each) {
  const nlohmann::json* value = Find(key);
  std::vector<int> numbers;
  if (value != nullptr && value->is_array() && !value->empty()) {
    for (const nlohmann::json& element : *value) {
      if (IsIntIn(element, each)) numbers.push_back(element.get<int>());
    }
    if (numbers.size() == value->size()) return numbers;
  }
  Fault(key, "a list of at least one element, each " + WholeNumber(each));
  return {};
}

std::vector<int> FieldReader::IntOrInts(const std::string& key, IntRange each) {
  const nlohmann::json* value = Find(key);
  if (value != nullptr && value->is_array() && !value->empty()) return Ints(key, each);
  const int number = Int(key, each);
  if (number == kUnknown) return {};
  return {number};
}

void FieldReader::MustBe(const std::string& key, const nlohmann::json& expected) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr || *value != expected) Fault(key, Shown(expected));
}

std::optional<FieldReader> FieldReader::Child(const std::string& key) {
  const nlohmann::json* value = Find(key);
  if (value != nullptr && value->is_object()) {
    return FieldReader(*value, path_, prefix_ + key + ".", faults_);
  }
  Fault(key, "an object");
  return std::nullopt;
}

std::optional<FieldReader> FieldReader::OnlyChild(const std::string& key) {
  const nlohmann::json* value = Find(key);
  if (value != nullptr && value->is_object() && value->size() == 1 && value->front().is_object()) {
    return FieldReader(value->front(), path_, prefix_ + key + "." + value->begin().key() + ".",
                       faults_);
  }
  Fault(key, "an object with exactly one group");
  return std::nullopt;
}

}  // namespace k3::runtime
