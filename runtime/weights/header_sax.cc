#include "runtime/weights/header_sax.h"

#include <array>
#include <limits>
#include <utility>

namespace k3::runtime {
namespace {

constexpr std::size_t kMaxRank = 8;

struct StoredType {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array<StoredType, 15> kStoredTypes = {{{"BOOL", 1},
                                                      {"U8", 1},
                                                      {"I8", 1},
                                                      {"F8_E5M2", 1},
                                                      {"F8_E4M3", 1},
                                                      {"F8_E8M0", 1},
                                                      {"I16", 2},
                                                      {"U16", 2},
                                                      {"F16", 2},
                                                      {"BF16", 2},
                                                      {"I32", 4},
                                                      {"U32", 4},
                                                      {"F32", 4},
                                                      {"I64", 8},
                                                      {"F64", 8}}};

// The table's own text of a dtype, which outlives the header; empty for an unknown name.
std::string_view KnownType(std::string_view name) {
  for (const StoredType& type : kStoredTypes) {
    if (type.name == name) return type.name;
  }
  return {};
}

}  // namespace

std::uint64_t StoredElementBytes(std::string_view dtype) {
  for (const StoredType& type : kStoredTypes) {
    if (type.name == dtype) return type.bytes;
  }
  return 0;
}

bool HeaderSax::Refuse(const std::string& found) {
  const std::string where = name_.empty() ? "the header" : "tensor " + name_;
  fault_ = where + ": found " + found +
           ", expected {\"dtype\": name, \"shape\": [sizes], \"data_offsets\": [begin, end]}";
  return false;
}

bool HeaderSax::boolean(bool /*value*/) {
  return Refuse("true or false");
}

bool HeaderSax::number_integer(number_integer_t value) {
  return Refuse("the number " + std::to_string(value));
}

bool HeaderSax::number_float(number_float_t /*value*/, const string_t& text) {
  return Refuse("the number " + text);
}

bool HeaderSax::binary(binary_t& /*value*/) {
  return Refuse("binary data");
}

bool HeaderSax::number_unsigned(number_unsigned_t value) {
  if (place_ == Place::kOffsets && offsets_.size() < 2) {
    offsets_.push_back(value);
    return true;
  }
  constexpr auto kLargest =
      static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
  if (place_ == Place::kShape && value <= kLargest && tensors_.back().shape.size() < kMaxRank) {
    tensors_.back().shape.push_back(static_cast<std::int64_t>(value));
    return true;
  }
  return Refuse("the number " + std::to_string(value));
}

bool HeaderSax::string(string_t& value) {
  if (place_ == Place::kMetadata) return true;
  if (place_ != Place::kFields || field_ != Field::kDtype) return Refuse('"' + value + '"');
  tensors_.back().dtype = KnownType(value);
  if (tensors_.back().dtype.empty()) return Refuse("the unknown dtype \"" + value + '"');
  has_dtype_ = true;
  return true;
}

bool HeaderSax::start_object(std::size_t /*elements*/) {
  if (place_ == Place::kStart) {
    place_ = Place::kNames;
    return true;
  }
  if (place_ != Place::kNames) return Refuse("a nested object");
  if (name_ == "__metadata__") {
    place_ = Place::kMetadata;
    return true;
  }
  place_ = Place::kFields;
  field_ = Field::kNone;
  has_dtype_ = false;
  has_shape_ = false;
  offsets_.clear();
  tensors_.emplace_back().name = name_;
  return true;
}

bool HeaderSax::key(string_t& name) {
  if (place_ == Place::kNames) {
    name_ = name;
    return true;
  }
  if (place_ == Place::kMetadata) return true;
  if (name == "dtype" && !has_dtype_) {
    field_ = Field::kDtype;
  } else if (name == "shape" && !has_shape_) {
    field_ = Field::kShape;
  } else if (name == "data_offsets" && offsets_.empty()) {
    field_ = Field::kOffsets;
  } else {
    return Refuse("the key \"" + name + '"');
  }
  return true;
}

bool HeaderSax::end_object() {
  if (place_ == Place::kFields) return FinishTensor();
  place_ = place_ == Place::kMetadata ? Place::kNames : Place::kDone;
  return true;
}

bool HeaderSax::FinishTensor() {
  if (!has_dtype_) return Refuse("no dtype");
  if (!has_shape_) return Refuse("no shape");
  if (offsets_.size() != 2) return Refuse("no data_offsets");
  tensors_.back().begin = offsets_[0];
  tensors_.back().end = offsets_[1];
  place_ = Place::kNames;
  return true;
}

bool HeaderSax::start_array(std::size_t /*elements*/) {
  if (place_ == Place::kFields && field_ == Field::kShape) {
    place_ = Place::kShape;
    has_shape_ = true;
    return true;
  }
  if (place_ == Place::kFields && field_ == Field::kOffsets) {
    place_ = Place::kOffsets;
    return true;
  }
  return Refuse("an array");
}

bool HeaderSax::end_array() {
  if (place_ == Place::kOffsets && offsets_.size() != 2) {
    return Refuse(std::to_string(offsets_.size()) + " data_offsets");
  }
  place_ = Place::kFields;
  field_ = Field::kNone;
  return true;
}

bool HeaderSax::parse_error(std::size_t position, const std::string& /*token*/,
                            const nlohmann::json::exception& /*error*/) {
  fault_ = "the header is not JSON at its byte " + std::to_string(position);
  return false;
}

}  // namespace k3::runtime
