#include "runtime/weights/make/make_model.h"

#include <cmath>
#include <fcntl.h>
#include <map>
#include <sys/file.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/weights/checkpoint.h"
#include "runtime/weights/test_files.h"

namespace k3::runtime {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::map<std::string, std::string> Contents(const std::string& dir) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(dir)) {
    files[entry.path().filename()] = Slurp(entry.path());
  }
  return files;
}

std::map<std::string, std::string> Made(const MakeOptions& options) {
  const Result<MadeModel> made = MakeModel(options);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return Contents(options.dir);
}

std::string Refusal(const MakeOptions& options) {
  const Result<MadeModel> made = MakeModel(options);
  return made.ok() ? "(made)" : made.error().message;
}

float RootMeanSquare(const ConstTensor& tensor) {
  double sum = 0;
  for (std::int64_t row = 0; row < tensor.rows; ++row) {
    for (std::int64_t column = 0; column < tensor.cols; ++column) {
      const double value = ToFloat(tensor.Row<Bf16>(row)[column]);
      sum += value * value;
    }
  }
  return static_cast<float>(std::sqrt(sum / static_cast<double>(tensor.rows * tensor.cols)));
}

// Kills: bytes that depend on the thread that wrote them, on time or on addresses; a seed that is
// ignored; a header that depends on the seed.
TEST(MakeModel, SameSeedSameBytes) {
  const TemporaryDirectory dir;
  MakeOptions options = OptionsFor("nano", dir.path() + "/a");
  const auto first = Made(options);
  options.dir = dir.path() + "/b";
  options.threads = 5;
  EXPECT_TRUE(first == Made(options));
  options.dir = dir.path() + "/c";
  options.seed = 2;
  const auto other = Made(options);
  ASSERT_EQ(first.size(), 15U);
  for (const auto& [name, bytes] : first) {
    const bool is_shard = name.ends_with(".safetensors");
    EXPECT_EQ(other.at(name) == bytes, !is_shard) << name;
    EXPECT_EQ(other.at(name).size(), bytes.size()) << name;
  }
}

// Kills: a generator or a hash that changes silently: a made model is a fixed thing others may
// have cached state for.
TEST(MakeModel, BytesAreTheSameAsEver) {
  const TemporaryDirectory dir;
  const std::string path = MakePreset("micro", dir.path() + "/m");
  const Result<Checkpoint> opened = Checkpoint::Open(path, {});
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(opened.value().fingerprint(), "e8be224b1c485daa20ec95a18be78895");
}

// Kills: another header order, another shard for a tensor, another index or config than released.
TEST(MakeModel, HeadersEqualTheGoldenOnes) {
  const TemporaryDirectory dir;
  const char* shared = std::getenv("K3_SHARED");
  for (const std::string preset : {"nano", "micro"}) {
    const std::string golden = std::string(shared ? shared : "../shared") + "/golden/k3-" + preset;
    if (!fs::exists(golden)) {
      std::printf("NOT RUN: %s is not on this machine\n", golden.c_str());
      continue;
    }
    const auto expected = Contents(golden);
    const auto made = Contents(MakePreset(preset, dir.path() + "/" + preset));
    ASSERT_EQ(made.size(), expected.size());
    for (const auto& [name, bytes] : expected) {
      ASSERT_TRUE(made.contains(name)) << name;
      const std::string& ours = made.at(name);
      ASSERT_EQ(ours.size(), bytes.size()) << name;
      const std::size_t compared =
          name.ends_with(".safetensors") ? kLengthBytes + HeaderLength(bytes) : bytes.size();
      EXPECT_TRUE(ours.compare(0, compared, bytes, 0, compared) == 0) << name;
    }
  }
}

// Kills: weights that explode or vanish with the width; control tokens or unnamed ids that can
// win; a constant channel that a sublayer writes to.
TEST(MakeModel, ScalesAreHealthy) {
  const TemporaryDirectory dir;
  const Result<Checkpoint> opened = Checkpoint::Open(MakePreset("nano", dir.path() + "/n"), {});
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const TextWeights& weights = opened.value().weights();
  EXPECT_NEAR(RootMeanSquare(weights.embed), std::sqrt(1.0F + 15.0F / 256.0F), 0.01F);
  EXPECT_EQ(ToFloat(weights.embed.Row<Bf16>(77)[0]), 4.0F);
  EXPECT_EQ(ToFloat(weights.lm_head.Row<Bf16>(2559)[0]), 0.0F);
  EXPECT_EQ(ToFloat(weights.lm_head.Row<Bf16>(2560)[0]), -32.0F);
  EXPECT_EQ(ToFloat(weights.lm_head.Row<Bf16>(2561)[0]), 0.0F);
  EXPECT_EQ(ToFloat(weights.lm_head.Row<Bf16>(2562)[0]), 0.0F);
  EXPECT_EQ(ToFloat(weights.lm_head.Row<Bf16>(2563)[0]), -32.0F);
  EXPECT_EQ(ToFloat(weights.lm_head.Row<Bf16>(2815)[0]), -32.0F);
  const auto& kda = std::get<KdaWeights>(weights.layers[1].attention);
  EXPECT_NEAR(RootMeanSquare(kda.q_proj) * std::sqrt(256.0F), 1.0F, 0.02F);
  EXPECT_EQ(ToFloat(kda.o_proj.Row<Bf16>(0)[9]), 0.0F);
  EXPECT_NE(ToFloat(kda.o_proj.Row<Bf16>(1)[9]), 0.0F);
  const auto& moe = std::get<MoeWeights>(weights.layers[1].ffn);
  EXPECT_NE(ToFloat(moe.down_proj.Row<Bf16>(0)[9]), 0.0F);
  EXPECT_EQ(ToFloat(moe.up_proj.Row<Bf16>(0)[9]), 0.0F);
  for (const kernels::ExpertWeights& expert : moe.experts) {
    const std::uint8_t scale = expert.w2.scale.Row<std::uint8_t>(7)[1];
    EXPECT_GE(scale, 118);
    EXPECT_LE(scale, 124);
  }
}

// Kills: overwriting what was there; --force as a way to lose a home directory; leftovers.
TEST(MakeModel, ReplacesOnlyACheckpointAndOnlyByForce) {
  const TemporaryDirectory dir;
  MakeOptions options = OptionsFor("micro", dir.path() + "/m/");
  const auto first = Made(options);
  EXPECT_THAT(Refusal(options), HasSubstr("is not empty"));
  options.force = true;
  options.seed = 9;
  EXPECT_FALSE(first == Made(options));
  fs::remove(dir.path() + "/m/config.json");
  EXPECT_THAT(Refusal(options), HasSubstr("not a checkpoint"));
  EXPECT_FALSE(fs::exists(dir.path() + "/m.tmp"));
  EXPECT_FALSE(fs::exists(dir.path() + "/m.old"));
}

// Kills: a second run that writes into the first one's files; a killed run that blocks all later.
TEST(MakeModel, StagingIsLockedAndLeftoversAreCleared) {
  const TemporaryDirectory dir;
  const MakeOptions options = OptionsFor("micro", dir.path() + "/m");
  const std::string staging = dir.path() + "/m.tmp";
  fs::create_directory(staging);
  Spill(staging + "/leftover", "x");
  const int other = open(staging.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  EXPECT_THAT(Refusal(options), HasSubstr("m.tmp: another run is writing here"));
  close(other);
  EXPECT_FALSE(Made(options).contains("leftover"));
}

// Kills: errors without path and reason; a tokenizer that does not fit the config it lies beside.
TEST(MakeModel, NamesWhatIsWrong) {
  const TemporaryDirectory dir;
  Spill(dir.path() + "/file", "x");
  EXPECT_THAT(Refusal(OptionsFor("micro", dir.path() + "/file")), HasSubstr("/file: is a file"));
  EXPECT_THAT(Refusal(OptionsFor("micro", dir.path() + "/file/m")),
              HasSubstr("/file/m.tmp: cannot create it: Not a directory"));
  EXPECT_THAT(Refusal(OptionsFor("micro", "")), HasSubstr("expected the name"));
  EXPECT_THAT(Refusal(OptionsFor("k3", dir.path() + "/k3")),
              HasSubstr("bos_token_id: found 163584, expected 2560"));
  MakeOptions options = OptionsFor("micro", dir.path() + "/m");
  options.config_json = "{}";
  EXPECT_THAT(Refusal(options), HasSubstr("micro: text_config: found nothing"));
  EXPECT_FALSE(fs::exists(dir.path() + "/m.tmp"));
}

}  // namespace
}  // namespace k3::runtime
