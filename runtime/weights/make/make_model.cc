#include "runtime/weights/make/make_model.h"

#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/weights/make/embedded.h"
#include "runtime/weights/make/fill.h"
#include "runtime/weights/make/plan.h"
#include "runtime/weights/make/staging.h"

namespace k3::runtime {
namespace {

constexpr std::uint64_t kBlockElements = 1 << 20;
constexpr int kFirstControlToken = 2560;  // of the embedded tokenizer
constexpr int kTokenizerIds = 2816;

// The embedded tokenizer goes into the checkpoint, so a config of other ids would lie.
Result<Ok> CheckTokenizerFits(const ModelConfig& config, const std::string& path) {
  std::string faults;
  if (config.bos_token_id != kFirstControlToken) {
    faults += path + ": bos_token_id: found " + std::to_string(config.bos_token_id) +
              ", expected " + std::to_string(kFirstControlToken) + " as in the tokenizer we write";
  }
  if (config.vocab_size < kTokenizerIds) {
    faults += (faults.empty() ? "" : "\n") + path + ": text_config.vocab_size: found " +
              std::to_string(config.vocab_size) + ", expected at least " +
              std::to_string(kTokenizerIds) + " for the tokenizer we write";
  }
  if (!faults.empty()) return Error{Code::kInvalidArgument, faults};
  return Ok{};
}

// One piece of one tensor; pieces are taken by whichever thread is free.
struct Block {
  std::size_t file;
  std::size_t tensor;
  std::uint64_t first;  // element
  std::uint64_t count;
};

std::vector<Block> CutIntoBlocks(const CheckpointPlan& plan) {
  std::vector<Block> blocks;
  for (std::size_t file = 0; file < plan.files.size(); ++file) {
    const std::vector<PlannedTensor>& tensors = plan.files[file].tensors;
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      const auto unit = static_cast<std::uint64_t>(SizeOf(tensors[tensor].dtype));
      const std::uint64_t elements = tensors[tensor].bytes() / unit;
      for (std::uint64_t first = 0; first < elements; first += kBlockElements) {
        blocks.push_back({file, tensor, first, std::min(kBlockElements, elements - first)});
      }
    }
  }
  return blocks;
}

// Fills and writes all blocks. The threads share a counter and the place of the first error.
class BlockWriter {
 public:
  BlockWriter(const FillContext& context, const CheckpointPlan& plan,
              const std::vector<OutputFile>& files)
      : context_(context), plan_(plan), files_(files), blocks_(CutIntoBlocks(plan)) {}

  Result<Ok> Run(int threads) {
    std::vector<std::thread> helpers;
    for (int i = 1; i < threads; ++i) helpers.emplace_back([this] { Work(); });
    Work();
    for (std::thread& helper : helpers) helper.join();
    if (error_) return *error_;
    return Ok{};
  }

 private:
  void Work() {
    std::string buffer;
    while (true) {
      const std::size_t index = next_.fetch_add(1);
      if (index >= blocks_.size()) return;
      const Result<Ok> written = Write(blocks_[index], buffer);
      if (written.ok()) continue;
      const std::lock_guard<std::mutex> guard(mutex_);
      if (!error_) error_ = written.error();
      next_.store(blocks_.size());
    }
  }

  Result<Ok> Write(const Block& block, std::string& buffer) const {
    const PlannedFile& file = plan_.files[block.file];
    const PlannedTensor& tensor = file.tensors[block.tensor];
    const auto unit = static_cast<std::uint64_t>(SizeOf(tensor.dtype));
    buffer.resize(block.count * unit);
    const Filler fill = MakeFiller(context_, tensor);
    fill(block.first, block.count, reinterpret_cast<std::byte*>(buffer.data()));
    const std::uint64_t offset = file.head.size() + tensor.begin + block.first * unit;
    return files_[block.file].WriteAt(offset, buffer);
  }

  const FillContext& context_;
  const CheckpointPlan& plan_;
  const std::vector<OutputFile>& files_;
  std::vector<Block> blocks_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::optional<Error> error_;
};

Result<Ok> WriteTensors(const FillContext& context, const CheckpointPlan& plan,
                        const std::string& dir, int threads) {
  std::vector<OutputFile> files;
  for (const PlannedFile& planned : plan.files) {
    Result<OutputFile> file = OutputFile::Create(dir + "/" + planned.name);
    if (!file.ok()) return file.error();
    const Result<Ok> head = file.value().WriteAt(0, planned.head);
    if (!head.ok()) return head.error();
    files.push_back(std::move(file).value());
  }
  return BlockWriter(context, plan, files).Run(threads);
}

std::string GenerationConfig(const ModelConfig& config) {
  nlohmann::ordered_json json;
  json["bos_token_id"] = config.bos_token_id;
  json["do_sample"] = true;
  json["eos_token_id"] = config.eos_token_ids.front();
  json["pad_token_id"] = kTokenizerIds - 1;
  json["temperature"] = 1.0;
  json["top_p"] = 1.0;
  json["transformers_version"] = "4.56.2";
  return json.dump(2) + "\n";
}

Result<Ok> WriteSmallFiles(const MakeOptions& options, const ModelConfig& config,
                           const CheckpointPlan& plan, const std::string& dir) {
  const std::string generation = GenerationConfig(config);
  std::vector<std::pair<std::string, std::string_view>> files = {
      {"config.json", options.config_json},
      {"generation_config.json", generation},
      {"tiktoken.model", EmbeddedTiktokenModel()},
      {"tokenizer_config.json", EmbeddedTokenizerConfig()},
  };
  if (!plan.index_json.empty()) files.emplace_back("model.safetensors.index.json", plan.index_json);
  for (const auto& [name, bytes] : files) {
    const Result<Ok> written = WriteWholeFile(dir + "/" + name, bytes);
    if (!written.ok()) return written.error();
  }
  return Ok{};
}

}  // namespace

Result<MadeModel> MakeModel(const MakeOptions& options) {
  const Result<ModelConfig> config = ParseModelConfig(options.config_json, options.config_path);
  if (!config.ok()) return config.error();
  const Result<Ok> fits = CheckTokenizerFits(config.value(), options.config_path);
  if (!fits.ok()) return fits.error();
  Result<StagingDirectory> staging = StagingDirectory::Create(options.dir, options.force);
  if (!staging.ok()) return staging.error();
  const CheckpointPlan plan = PlanCheckpoint(config.value(), options.layout);
  const std::string& dir = staging.value().path();
  const Result<Ok> small = WriteSmallFiles(options, config.value(), plan, dir);
  if (!small.ok()) return small.error();
  const FillContext context{options.seed, &config.value()};
  const Result<Ok> tensors = WriteTensors(context, plan, dir, options.threads);
  if (!tensors.ok()) return tensors.error();
  const Result<Ok> committed = staging.value().Commit();
  if (!committed.ok()) return committed.error();
  return MadeModel{plan.total_bytes, plan.num_tensors, plan.files.size()};
}

}  // namespace k3::runtime
