// Matches what the files hold against the tensor table, and notes everything that does not fit.
// Private to runtime/weights.
//   1. Every spec is bound once, by the file the index names for it, or becomes one fault.
//   2. A tensor the table does not have is a fault, vision's excepted.
//   3. What a missing or damaged file should have held is counted, not listed: one fault a file.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/config/fault_list.h"
#include "runtime/weights/safetensors.h"
#include "runtime/weights/tensor_table.h"

namespace k3::runtime {

class TensorBinder {
 public:
  TensorBinder(std::vector<TensorSpec> specs, std::string dir);

  // Without an index all tensors are expected in one file.
  void ExpectAllIn(const std::string& file);
  // One line of the index, whose path is for messages.
  void ExpectIn(std::string_view tensor, std::string_view file, const std::string& index_path);
  // After the last line: which tensors of the text model the index does not know.
  void FinishIndex(const std::string& index_path);

  // The files that hold text tensors, sorted by name. Those with vision only are not among them.
  std::vector<std::string> Files() const;

  void FileFailed(const std::string& file, const Error& error);
  void Bind(const std::string& file, const MappedFile& mapping, const SafetensorsHeader& header);
  // After the last file: which tensors were promised and not found.
  void FinishFiles();

  FaultList& faults() { return faults_; }
  std::int64_t bound_bytes() const { return bound_bytes_; }
  std::int64_t num_tensors() const { return static_cast<std::int64_t>(specs_.size()); }

 private:
  static constexpr int kNoFile = -1;

  int FileNumber(std::string_view file);
  void BindOne(int file, const MappedFile& mapping, const StoredTensor& stored,
               std::uint64_t data_start);
  bool CheckStored(const TensorSpec& spec, const StoredTensor& stored, const MappedFile& mapping,
                   std::uint64_t data_start);

  std::string dir_;
  std::vector<TensorSpec> specs_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // views of specs_' names
  std::vector<std::string> files_;
  std::unordered_map<std::string, int> file_numbers_;
  std::vector<bool> file_failed_;
  std::vector<int> expected_file_;  // of each spec
  std::int64_t bound_bytes_ = 0;
  FaultList faults_;
};

}  // namespace k3::runtime
