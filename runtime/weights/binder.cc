#include "runtime/weights/binder.h"

#include <algorithm>
#include <utility>

namespace k3::runtime {
namespace {

std::string ExpectedShape(const TensorSpec& spec) {
  switch (spec.rule) {
    case ShapeRule::kVector:
      return ShapeText({spec.cols});
    case ShapeRule::kMatrix:
      return ShapeText({spec.rows, spec.cols});
    case ShapeRule::kConv:
      return ShapeText({spec.rows, spec.cols}) + " or " + ShapeText({spec.rows, 1, spec.cols});
    case ShapeRule::kPadded:
      return "[n] with n at least " + std::to_string(spec.cols);
  }
  return "?";
}

bool ShapeFits(const TensorSpec& spec, const std::vector<std::int64_t>& shape) {
  using Shape = std::vector<std::int64_t>;
  switch (spec.rule) {
    case ShapeRule::kVector:
      return shape == Shape{spec.cols};
    case ShapeRule::kMatrix:
      return shape == Shape{spec.rows, spec.cols};
    case ShapeRule::kConv:
      return shape == Shape{spec.rows, spec.cols} || shape == Shape{spec.rows, 1, spec.cols};
    case ShapeRule::kPadded:
      return shape.size() == 1 && shape[0] >= spec.cols;
  }
  return false;
}

// A name from the index becomes part of a path, so it must not lead out of the directory.
bool IsPlainFileName(std::string_view file) {
  return !file.empty() && file != "." && file != ".." &&
         file.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

}  // namespace

TensorBinder::TensorBinder(std::vector<TensorSpec> specs, std::string dir)
    : dir_(std::move(dir)), specs_(std::move(specs)), expected_file_(specs_.size(), kNoFile) {
  by_name_.reserve(specs_.size());
  for (std::size_t i = 0; i < specs_.size(); ++i) by_name_.emplace(specs_[i].name, i);
}

int TensorBinder::FileNumber(std::string_view file) {
  const auto [found, added] =
      file_numbers_.emplace(std::string(file), static_cast<int>(files_.size()));
  if (added) {
    files_.emplace_back(file);
    file_failed_.push_back(false);
  }
  return found->second;
}

void TensorBinder::ExpectAllIn(const std::string& file) {
  std::fill(expected_file_.begin(), expected_file_.end(), FileNumber(file));
}

void TensorBinder::ExpectIn(std::string_view tensor, std::string_view file,
                            const std::string& index_path) {
  if (IsVisionTensor(tensor)) return;
  const std::string where = index_path + ": " + std::string(tensor) + ": ";
  const auto found = by_name_.find(tensor);
  if (found == by_name_.end()) {
    return faults_.Add(Code::kInvalidArgument,
                       where + "found this tensor, expected none of that name in the text model");
  }
  if (!IsPlainFileName(file)) {
    return faults_.Add(Code::kInvalidArgument, where + "found the file \"" + std::string(file) +
                                                   "\", expected a name without a directory");
  }
  int& expected = expected_file_[found->second];
  if (expected != kNoFile) {
    return faults_.Add(Code::kInvalidArgument, where + "listed twice, expected once");
  }
  expected = FileNumber(file);
}

void TensorBinder::FinishIndex(const std::string& index_path) {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (expected_file_[i] != kNoFile) continue;
    faults_.Add(Code::kNotFound,
                index_path + ": " + specs_[i].name + ": missing, expected in weight_map");
  }
}

std::vector<std::string> TensorBinder::Files() const {
  std::vector<std::string> files = files_;
  std::sort(files.begin(), files.end());
  return files;
}

void TensorBinder::FileFailed(const std::string& file, const Error& error) {
  const int number = FileNumber(file);
  file_failed_[static_cast<std::size_t>(number)] = true;
  faults_.Add(error);
  const auto lost = std::count(expected_file_.begin(), expected_file_.end(), number);
  faults_.Add(error.code, dir_ + "/" + file + ": cannot be used, expected " + std::to_string(lost) +
                              " tensors in it");
}

bool TensorBinder::CheckStored(const TensorSpec& spec, const StoredTensor& stored,
                               const MappedFile& mapping, std::uint64_t data_start) {
  const std::string where = mapping.path() + ": " + stored.name + ": ";
  if (stored.dtype != NameOf(spec.dtype)) {
    faults_.Add(Code::kInvalidArgument, where + "found dtype " + std::string(stored.dtype) +
                                            ", expected " + NameOf(spec.dtype));
    return false;
  }
  if (!ShapeFits(spec, stored.shape)) {
    faults_.Add(Code::kInvalidArgument, where + "found shape " + ShapeText(stored.shape) +
                                            ", expected " + ExpectedShape(spec));
    return false;
  }
  // Numbers are read in place, so a file must not place them where the machine cannot load them.
  const auto unit = static_cast<std::uint64_t>(SizeOf(spec.dtype));
  if ((data_start + stored.begin) % unit != 0) {
    faults_.Add(Code::kInvalidArgument, where + "found at byte " +
                                            std::to_string(data_start + stored.begin) +
                                            " of the file, expected a multiple of " +
                                            std::to_string(unit) + " for " + NameOf(spec.dtype));
    return false;
  }
  return true;
}

void TensorBinder::BindOne(int file, const MappedFile& mapping, const StoredTensor& stored,
                           std::uint64_t data_start) {
  if (IsVisionTensor(stored.name)) return;
  const std::string where = mapping.path() + ": " + stored.name + ": ";
  const auto found = by_name_.find(stored.name);
  if (found == by_name_.end()) {
    return faults_.Add(Code::kInvalidArgument,
                       where + "found this tensor, expected none of that name in the text model");
  }
  const TensorSpec& spec = specs_[found->second];
  int& expected = expected_file_[found->second];
  if (expected != file) {
    const std::string place =
        expected == kNoFile ? "nowhere" : files_[static_cast<std::size_t>(expected)];
    return faults_.Add(Code::kInvalidArgument,
                       where + "found in this file, expected by the index in " + place);
  }
  expected = kNoFile;  // found, right or wrong: no longer missing
  if (!CheckStored(spec, stored, mapping, data_start)) return;
  const std::byte* data = mapping.data() + data_start + stored.begin;
  *spec.slot = {data, spec.dtype, spec.rows, spec.cols, spec.cols};
  bound_bytes_ += static_cast<std::int64_t>(stored.end - stored.begin);
}

void TensorBinder::Bind(const std::string& file, const MappedFile& mapping,
                        const SafetensorsHeader& header) {
  const int number = FileNumber(file);
  for (const StoredTensor& stored : header.tensors) {
    BindOne(number, mapping, stored, header.data_start);
  }
}

void TensorBinder::FinishFiles() {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const int file = expected_file_[i];
    if (file == kNoFile || file_failed_[static_cast<std::size_t>(file)]) continue;
    faults_.Add(Code::kNotFound, dir_ + "/" + files_[static_cast<std::size_t>(file)] + ": " +
                                     specs_[i].name + ": missing, expected " +
                                     NameOf(specs_[i].dtype) + " " + ExpectedShape(specs_[i]));
  }
}

}  // namespace k3::runtime
