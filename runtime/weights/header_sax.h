// Turns a safetensors header's JSON into StoredTensors, event by event and without a document in
// between: a real shard has 5,400 entries. Private to runtime/weights.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/weights/safetensors.h"

namespace k3::runtime {

// The events of nlohmann::json::sax_parse. Returning false stops the parser; fault() then says why.
class HeaderSax {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  std::vector<StoredTensor> TakeTensors() { return std::move(tensors_); }
  const std::string& fault() const { return fault_; }

  bool null() { return Refuse("a null"); }
  bool boolean(bool value);
  bool number_integer(number_integer_t value);
  bool number_unsigned(number_unsigned_t value);
  bool number_float(number_float_t value, const string_t& text);
  bool string(string_t& value);
  bool binary(binary_t& value);
  bool start_object(std::size_t elements);
  bool key(string_t& name);
  bool end_object();
  bool start_array(std::size_t elements);
  bool end_array();
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::json::exception& error);

 private:
  enum class Place {
    kStart,     // before the outer object
    kNames,     // in the outer object
    kMetadata,  // in the value of __metadata__
    kFields,    // in a tensor's object
    kShape,     // in the array of "shape"
    kOffsets,   // in the array of "data_offsets"
    kDone,
  };
  enum class Field { kNone, kDtype, kShape, kOffsets };

  bool Refuse(const std::string& found);
  bool FinishTensor();

  Place place_ = Place::kStart;
  Field field_ = Field::kNone;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  std::vector<std::uint64_t> offsets_;
  std::string name_;  // the key last seen in the outer object
  std::vector<StoredTensor> tensors_;
  std::string fault_;
};

// Bytes of one element, or 0 for a name the format does not have.
std::uint64_t StoredElementBytes(std::string_view dtype);

}  // namespace k3::runtime
