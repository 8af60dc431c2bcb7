// The release itself: 96 shards with the real headers, as sparse files that hold nothing.
#include <chrono>
#include <cstdio>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/weights/checkpoint.h"
#include "runtime/weights/make/plan.h"
#include "runtime/weights/make/staging.h"
#include "runtime/weights/test_files.h"

namespace k3::runtime {
namespace {

constexpr std::uint64_t kReleaseBytes = 1'560'860'324'864;
constexpr std::uint64_t kReleaseTensors = 497'220;
constexpr std::int64_t kReleaseTextBytes = 1'559'965'606'912;
constexpr std::int64_t kReleaseTextTensors = 497'052;
constexpr int kVisionBlocks = 27;

using VisionShard = std::vector<PlannedTensor>;

void Add(VisionShard& shard, const std::string& name, std::vector<std::int64_t> shape) {
  shard.push_back({name, DType::kBf16, std::move(shape)});
}

// Architecture notes 1.2 and 3.2: two shards, projector first.
std::vector<VisionShard> VisionShards() {
  VisionShard projector;
  Add(projector, "mm_projector.proj.0.weight", {4096, 4096});
  Add(projector, "mm_projector.proj.2.weight", {7168, 4096});
  Add(projector, "mm_projector.post_norm.weight", {7168});
  VisionShard tower;
  Add(tower, "vision_tower.patch_embed.proj.weight", {1024, 3, 14, 14});
  Add(tower, "vision_tower.patch_embed.pos_emb.weight", {64, 64, 1024});
  for (int block = 0; block < kVisionBlocks; ++block) {
    const std::string prefix = "vision_tower.encoder.blocks." + std::to_string(block) + ".";
    Add(tower, prefix + "norm0.weight", {1024});
    Add(tower, prefix + "norm1.weight", {1024});
    Add(tower, prefix + "wqkv.weight", {4608, 1024});
    Add(tower, prefix + "wo.weight", {1024, 1536});
    Add(tower, prefix + "mlp.fc0.weight", {4096, 1024});
    Add(tower, prefix + "mlp.fc1.weight", {1024, 4096});
  }
  Add(tower, "vision_tower.encoder.final_layernorm.weight", {1024});
  return {projector, tower};
}

bool WriteSparse(const PlannedFile& planned, const std::string& dir) {
  const Result<OutputFile> file = OutputFile::Create(dir + "/" + planned.name);
  return file.ok() && file.value().WriteAt(0, planned.head).ok() &&
         file.value().Resize(planned.head.size() + planned.data_bytes).ok();
}

// Runs in a process of its own, so that what planning takes does not count as opening.
bool WriteRelease(const std::string& dir) {
  const std::optional<Preset> preset = FindPreset("k3");
  const Result<ModelConfig> config = ParseModelConfig(preset->config_json, "k3");
  if (!config.ok()) return false;
  const CheckpointPlan plan = PlanCheckpoint(config.value(), preset->layout, VisionShards());
  std::printf("planned %zu files, %zu tensors, %llu bytes, index of %zu bytes\n", plan.files.size(),
              plan.num_tensors, static_cast<unsigned long long>(plan.total_bytes),
              plan.index_json.size());
  std::fflush(stdout);
  if (plan.files.size() != 96 || plan.num_tensors != kReleaseTensors) return false;
  if (plan.total_bytes != kReleaseBytes) return false;
  for (const PlannedFile& file : plan.files) {
    if (!WriteSparse(file, dir)) return false;
  }
  return WriteWholeFile(dir + "/config.json", preset->config_json).ok() &&
         WriteWholeFile(dir + "/model.safetensors.index.json", plan.index_json).ok();
}

int InChild(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

std::int64_t MaxResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

constexpr bool kSanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#else
    false;
#endif

// Kills: a tensor table that is off by one tensor anywhere, weights read or widened at load, an
// index held as a document, samples that map a terabyte in.
TEST(SparseCheckpoint, TheReleaseOpensOnASmallMachine) {
  const TemporaryDirectory dir;
  ASSERT_EQ(InChild([&] { return WriteRelease(dir.path()); }), 0);
  const auto start = std::chrono::steady_clock::now();
  const Result<Checkpoint> opened = Checkpoint::Open(dir.path(), {});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  std::printf("opened in %.2f s, %.0f MB resident at most, fingerprint %s\n", seconds.count(),
              static_cast<double>(MaxResidentBytes()) / 1e6, opened.value().fingerprint().c_str());
  EXPECT_EQ(opened.value().total_bytes(), kReleaseTextBytes);
  EXPECT_EQ(opened.value().num_tensors(), kReleaseTextTensors);
  EXPECT_EQ(opened.value().weights().layers.size(), 93U);
  // The sanitizers' own bookkeeping is not ours to count.
  if constexpr (!kSanitized) {
    EXPECT_LT(MaxResidentBytes(), 1'500'000'000);
  }
}

}  // namespace
}  // namespace k3::runtime
