#include "runtime/weights/shard_index.h"

#include <nlohmann/json.hpp>

namespace k3::runtime {
namespace {

// Depth 1 is the outer object; weight_map is the object at depth 2 under that key.
class IndexSax {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  explicit IndexSax(const IndexEntry& entry) : entry_(entry) {}

  bool found_map() const { return found_map_; }
  const std::string& fault() const { return fault_; }

  bool null() { return Scalar(); }
  bool boolean(bool /*value*/) { return Scalar(); }
  bool number_integer(number_integer_t /*value*/) { return Scalar(); }
  bool number_unsigned(number_unsigned_t /*value*/) { return Scalar(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) { return Scalar(); }
  bool binary(binary_t& /*value*/) { return Scalar(); }
  bool string(string_t& value) {
    if (!InMap()) return Scalar();
    entry_(key_, value);
    return true;
  }
  bool start_object(std::size_t /*elements*/) {
    if (InMap()) return Refuse();
    ++depth_;
    if (depth_ == 2) in_weight_map_ = key_ == "weight_map";
    found_map_ = found_map_ || InMap();
    return true;
  }
  bool key(string_t& name) {
    key_ = name;
    return true;
  }
  bool end_object() {
    if (depth_ == 2) in_weight_map_ = false;
    --depth_;
    return true;
  }
  bool start_array(std::size_t /*elements*/) {
    if (InMap()) return Refuse();
    ++depth_;
    return true;
  }
  bool end_array() { return end_object(); }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) {
    fault_ = "is not JSON at its byte " + std::to_string(position);
    return false;
  }

 private:
  bool InMap() const { return depth_ == 2 && in_weight_map_; }
  bool Scalar() { return InMap() ? Refuse() : true; }
  bool Refuse() {
    fault_ = "weight_map." + key_ + ": expected the name of a file";
    return false;
  }

  const IndexEntry& entry_;
  int depth_ = 0;
  bool in_weight_map_ = false;
  bool found_map_ = false;
  std::string key_;
  std::string fault_;
};

}  // namespace

Result<Ok> ParseShardIndex(std::string_view json, const std::string& path,
                           const IndexEntry& entry) {
  IndexSax sax(entry);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &sax)) {
    return Error{Code::kDataLoss, path + ": " + sax.fault()};
  }
  if (!sax.found_map()) {
    return Error{Code::kDataLoss, path + ": found no object \"weight_map\", expected one"};
  }
  return Ok{};
}

}  // namespace k3::runtime
