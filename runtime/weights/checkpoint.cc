#include "runtime/weights/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>
#include <utility>

#include "runtime/config/read_file.h"
#include "runtime/weights/binder.h"
#include "runtime/weights/fingerprint.h"
#include "runtime/weights/shard_index.h"
#include "runtime/weights/tensor_table.h"

namespace k3::runtime {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kWarmupStep = 32 << 20;
constexpr std::uint8_t kNanScale = 255;
constexpr std::int64_t kScaleSampleBytes = 4096;

bool Exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

std::span<const std::uint8_t> BytesOf(const ConstTensor& tensor) {
  return {tensor.Row<std::uint8_t>(0), static_cast<std::size_t>(tensor.rows * tensor.cols)};
}

bool HasNan(std::span<const std::uint8_t> scales) {
  return std::memchr(scales.data(), kNanScale, scales.size()) != nullptr;
}

Error NanScale(const MappedFile& file, const std::uint8_t* scales) {
  const auto offset = reinterpret_cast<const std::byte*>(scales) - file.data();
  return {Code::kDataLoss, file.path() + ": the MXFP4 scales at byte " + std::to_string(offset) +
                               ": found 255 (not a number), expected 0 to 254"};
}

void TouchPages(const MappedFile& file, std::uint64_t begin, std::uint64_t end) {
  file.WillNeed(begin, end - begin);
  // Volatile, because a byte nobody uses need not be read.
  const auto* data = reinterpret_cast<const volatile std::uint8_t*>(file.data());
  for (std::uint64_t at = begin; at < end; at += kPageBytes) static_cast<void>(data[at]);
}

// One mixer's norm.weight * proj.weight, in fp32: products of two bf16 are exact there.
void DeriveMixer(const MixerSource& source, float* out, MixerWeights& mixer) {
  const std::int64_t width = source.norm.cols;
  const Bf16* norm = source.norm.Row<Bf16>(0);
  const Bf16* proj = source.proj.Row<Bf16>(0);
  for (std::int64_t i = 0; i < width; ++i) out[i] = ToFloat(norm[i]) * ToFloat(proj[i]);
  mixer.score = View(static_cast<const float*>(out), 1, width);
}

}  // namespace

// Opens in steps; each notes its faults with the binder and later steps go on where they can.
class CheckpointOpener {
 public:
  CheckpointOpener(std::string dir, const OpenOptions& options) : options_(options) {
    while (dir.size() > 1 && dir.back() == '/') dir.pop_back();
    checkpoint_.dir_ = std::move(dir);
  }

  Result<Checkpoint> Run() {
    const std::string& dir = checkpoint_.dir_;
    if (!Exists(dir)) return Error{Code::kNotFound, dir + ": no such directory"};
    const std::string config_path = dir + "/config.json";
    Result<std::string> config_json = ReadFile(config_path, kMaxConfigBytes);
    if (!config_json.ok()) return config_json.error();
    Result<ModelConfig> config = ParseModelConfig(config_json.value(), config_path);
    if (!config.ok()) return config.error();
    checkpoint_.config_ = std::move(config).value();

    TensorBinder binder(ListTextTensors(checkpoint_.config_, bound_), dir);
    if (const Result<Ok> found = FindFiles(binder); !found.ok()) return found.error();
    Fingerprint fingerprint(config_json.value());
    OpenFiles(binder, fingerprint);
    binder.FinishFiles();
    if (!binder.faults().empty()) return binder.faults().ToError();

    checkpoint_.fingerprint_ = fingerprint.Hex();
    checkpoint_.total_bytes_ = binder.bound_bytes();
    checkpoint_.num_tensors_ = binder.num_tensors();
    DeriveMixers();
    checkpoint_.weights_ = std::move(bound_.text);
    CollectScales();
    if (const Result<Ok> scales = CheckScales(); !scales.ok()) return scales.error();
    SetReadAhead();
    return std::move(checkpoint_);
  }

 private:
  Result<Ok> FindFiles(TensorBinder& binder) {
    const std::string index_path = checkpoint_.dir_ + "/" + std::string(kIndexName);
    if (!Exists(index_path)) {
      const std::string single = checkpoint_.dir_ + "/" + std::string(kSingleName);
      if (!Exists(single)) {
        return Error{Code::kNotFound, checkpoint_.dir_ + ": found neither " +
                                          std::string(kIndexName) + " nor " +
                                          std::string(kSingleName) + ", expected one of them"};
      }
      binder.ExpectAllIn(std::string(kSingleName));
      return Ok{};
    }
    const Result<std::string> json = ReadFile(index_path, kMaxIndexBytes);
    if (!json.ok()) return json.error();
    const auto entry = [&](std::string_view tensor, std::string_view file) {
      binder.ExpectIn(tensor, file, index_path);
    };
    const Result<Ok> parsed = ParseShardIndex(json.value(), index_path, entry);
    if (!parsed.ok()) return parsed.error();
    binder.FinishIndex(index_path);
    return Ok{};
  }

  void OpenFiles(TensorBinder& binder, Fingerprint& fingerprint) {
    const std::vector<std::string> names = binder.Files();
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      Report(static_cast<double>(i) / static_cast<double>(names.size()), bytes, names[i]);
      const Result<std::int64_t> opened = OpenFile(names[i], binder, fingerprint);
      if (opened.ok()) bytes += opened.value();
      if (!opened.ok()) binder.FileFailed(names[i], opened.error());
    }
    Report(1.0, bytes, "");
  }

  Result<std::int64_t> OpenFile(const std::string& name, TensorBinder& binder,
                                Fingerprint& fingerprint) {
    Result<MappedFile> file = MappedFile::Open(checkpoint_.dir_ + "/" + name);
    if (!file.ok()) return file.error();
    const Result<SafetensorsHeader> header = ReadSafetensorsHeader(file.value());
    if (!header.ok()) return header.error();
    const Result<Ok> sampled = fingerprint.AddFile(file.value(), header.value().json);
    if (!sampled.ok()) return sampled.error();
    binder.Bind(name, file.value(), header.value());
    file.value().Advise(MappedFile::ReadAhead::kOff);
    checkpoint_.files_.push_back(std::move(file).value());
    return static_cast<std::int64_t>(checkpoint_.files_.back().size());
  }

  void Report(double fraction, std::int64_t bytes, std::string_view file) {
    if (options_.progress) options_.progress({fraction, bytes, bytes, file});
  }

  void DeriveMixers() {
    const auto width = static_cast<std::size_t>(checkpoint_.config_.hidden_size);
    std::vector<float>& derived = checkpoint_.derived_;
    derived.resize((2 * bound_.layer_mixers.size() + 1) * width);
    float* out = derived.data();
    for (std::size_t layer = 0; layer < bound_.layer_mixers.size(); ++layer) {
      LayerWeights& weights = bound_.text.layers[layer];
      DeriveMixer(bound_.layer_mixers[layer].attention, out, weights.attention_mixer);
      DeriveMixer(bound_.layer_mixers[layer].mlp, out + width, weights.mlp_mixer);
      out += 2 * width;
    }
    DeriveMixer(bound_.output_mixer, out, bound_.text.output_mixer);
  }

  void SetReadAhead() const {
    for (const MappedFile& file : checkpoint_.files_) file.Advise(MappedFile::ReadAhead::kOn);
  }

  void CollectScales() {
    for (const LayerWeights& layer : checkpoint_.weights_.layers) {
      const auto* moe = std::get_if<MoeWeights>(&layer.ffn);
      if (moe == nullptr) continue;
      for (const kernels::ExpertWeights& expert : moe->experts) {
        for (const Mxfp4Weight* weight : {&expert.w1, &expert.w2, &expert.w3}) {
          checkpoint_.scales_.push_back(BytesOf(weight->scale));
        }
      }
    }
    std::sort(checkpoint_.scales_.begin(), checkpoint_.scales_.end(),
              [](const auto& a, const auto& b) { return a.data() < b.data(); });
  }

  Result<Ok> CheckScales() {
    std::int64_t bytes = 0;
    for (const auto& scales : checkpoint_.scales_) {
      bytes += static_cast<std::int64_t>(scales.size());
    }
    const bool all = bytes <= Checkpoint::kFullScaleCheckBytes;
    if (all) SetReadAhead();
    const auto per_layer = 3 * static_cast<std::size_t>(checkpoint_.config_.moe.num_experts);
    FaultList faults;
    for (std::size_t i = 0; i < checkpoint_.scales_.size(); ++i) {
      // The sampled expert wanders from layer to layer; 3 scale tensors belong to one.
      const std::size_t sampled = i / per_layer * 131 % (per_layer / 3);
      if (!all && i % per_layer / 3 != sampled) continue;
      const auto scales = checkpoint_.scales_[i];
      const std::size_t looked_at =
          all ? scales.size()
              : std::min(scales.size(), static_cast<std::size_t>(kScaleSampleBytes));
      if (HasNan(scales.first(looked_at))) faults.Add(NanScale(FileOf(scales), scales.data()));
    }
    if (!faults.empty()) return faults.ToError();
    return Ok{};
  }

  const MappedFile& FileOf(std::span<const std::uint8_t> bytes) const {
    const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
    for (const MappedFile& file : checkpoint_.files_) {
      if (begin >= file.data() && begin < file.data() + file.size()) return file;
    }
    K3_CHECK(false);
  }

  const OpenOptions& options_;
  BoundWeights bound_;
  Checkpoint checkpoint_;
};

Result<Checkpoint> Checkpoint::Open(const std::string& dir, const OpenOptions& options) {
  return CheckpointOpener(dir, options).Run();
}

Result<Ok> Checkpoint::Warmup(const ProgressCallback& progress) const {
  std::int64_t total = 0;
  for (const MappedFile& file : files_) total += static_cast<std::int64_t>(file.size());
  std::int64_t done = 0;
  FaultList faults;
  for (const MappedFile& file : files_) {
    const auto* data = reinterpret_cast<const std::uint8_t*>(file.data());
    auto scales = std::lower_bound(scales_.begin(), scales_.end(), data,
                                   [](const auto& a, const auto* b) { return a.data() < b; });
    for (std::uint64_t begin = 0; begin < file.size(); begin += kWarmupStep) {
      const std::uint64_t end = std::min(begin + kWarmupStep, file.size());
      const double fraction = static_cast<double>(done) / static_cast<double>(total);
      if (progress) progress({fraction, done, total, file.path()});
      TouchPages(file, begin, end);
      for (; scales != scales_.end() && scales->data() < data + end; ++scales) {
        if (HasNan(*scales)) faults.Add(NanScale(file, scales->data()));
      }
      done += static_cast<std::int64_t>(end - begin);
    }
  }
  if (progress) progress({1.0, total, total, ""});
  if (!faults.empty()) return faults.ToError();
  return Ok{};
}

}  // namespace k3::runtime
