#include "runtime/weights/checkpoint.h"

#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/weights/test_files.h"

namespace k3::runtime {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const char* const kLayer0 = "language_model.model.layers.0.";

Checkpoint MustOpen(const std::string& dir) {
  Result<Checkpoint> opened = Checkpoint::Open(dir, {});
  if (!opened.ok()) std::printf("%s\n", opened.error().message.c_str());
  return std::move(opened).value();
}

std::string Refusal(const std::string& dir) {
  const Result<Checkpoint> opened = Checkpoint::Open(dir, {});
  return opened.ok() ? "(accepted)" : opened.error().message;
}

// The golden checkpoint of that name, or "" with the reason printed.
std::string Golden(const std::string& name) {
  const std::string local = "tests/golden/" + name;
  if (fs::exists(local)) return local;
  const char* shared = std::getenv("K3_SHARED");
  const std::string path = std::string(shared ? shared : "../shared") + "/golden/" + name;
  if (fs::exists(path)) return path;
  std::printf("NOT RUN: %s is not on this machine\n", path.c_str());
  return "";
}

float At(const ConstTensor& tensor, std::int64_t row, std::int64_t column) {
  return ToFloat(tensor.Row<Bf16>(row)[column]);
}

Bf16 Bits(std::uint16_t bits) {
  return {bits};
}

// Kills: a wrong data start or shard, transposed views, padding of A_log kept, a mixer's score
// from another layer's halves.
TEST(Checkpoint, ReadsGoldenNano) {
  const std::string dir = Golden("k3-nano");
  if (dir.empty()) return;
  const Checkpoint checkpoint = MustOpen(dir);
  EXPECT_EQ(checkpoint.num_tensors(), 1770);
  EXPECT_EQ(checkpoint.total_bytes(), 20'681'792);
  const TextWeights& weights = checkpoint.weights();
  ASSERT_EQ(weights.layers.size(), 9U);
  const auto& kda = std::get<KdaWeights>(weights.layers[0].attention);
  EXPECT_EQ(kda.a_log.cols, 2);
  EXPECT_EQ(kda.a_log.Row<float>(0)[1], std::bit_cast<float>(0xbee48f27U));
  EXPECT_EQ(kda.q_conv.rows, 256);
  EXPECT_EQ(kda.q_conv.cols, 4);
  EXPECT_EQ(kda.q_conv.Row<float>(0)[2], std::bit_cast<float>(0xbdb70118U));
  EXPECT_EQ(kda.q_conv.Row<float>(255)[3], std::bit_cast<float>(0x3f250333U));
  const auto& mla = std::get<MlaWeights>(weights.layers[3].attention);
  EXPECT_EQ(At(mla.kv_b_proj, 0, 1), ToFloat(Bits(0xbbb3)));
  EXPECT_EQ(At(mla.kv_b_proj, 511, 511), ToFloat(Bits(0xbcd7)));
  const auto& moe = std::get<MoeWeights>(weights.layers[3].ffn);
  ASSERT_EQ(moe.experts.size(), 32U);
  EXPECT_EQ(moe.experts[31].w2.packed.Row<std::uint8_t>(127)[47], 0x9e);
  EXPECT_EQ(moe.experts[31].w2.scale.Row<std::uint8_t>(0)[2], 0x7a);
  EXPECT_EQ(At(weights.lm_head, 2815, 255), ToFloat(Bits(0x3c8f)));
  EXPECT_EQ(weights.output_mixer.score.Row<float>(0)[0],
            ToFloat(Bits(0x3f91)) * ToFloat(Bits(0x3d5e)));
  EXPECT_TRUE(std::holds_alternative<MlaWeights>(weights.layers[8].attention));
  EXPECT_TRUE(std::holds_alternative<MlpWeights>(weights.layers[0].ffn));
}

// Kills: a loader that needs an index, 3-D convolutions or a padded A_log.
TEST(Checkpoint, ReadsGoldenMicro) {
  const std::string dir = Golden("k3-micro");
  if (dir.empty()) return;
  const Checkpoint checkpoint = MustOpen(dir);
  EXPECT_EQ(checkpoint.num_tensors(), 320);
  const auto& kda = std::get<KdaWeights>(checkpoint.weights().layers[0].attention);
  EXPECT_EQ(kda.a_log.Row<float>(0)[2], std::bit_cast<float>(0x3ea6aafaU));
  const auto& moe = std::get<MoeWeights>(checkpoint.weights().layers[4].ffn);
  EXPECT_EQ(moe.experts[7].w3.packed.Row<std::uint8_t>(31)[31], 0x9d);
}

// A made micro checkpoint that each test damages in its own way.
class DamagedCheckpoint : public testing::Test {
 protected:
  const std::string& dir() const { return dir_; }
  std::string file() const { return dir_ + "/model.safetensors"; }
  std::string Tensor(const std::string& suffix) const { return kLayer0 + suffix; }

 private:
  TemporaryDirectory temporary_;
  std::string dir_ = MakePreset("micro", temporary_.path() + "/m");
};

// Kills: views that point into the moved-from object.
TEST_F(DamagedCheckpoint, ViewsSurviveAMove) {
  Checkpoint first = MustOpen(dir());
  const void* embed = first.weights().embed.data;
  const float score = first.weights().layers[1].mlp_mixer.score.Row<float>(0)[5];
  const Checkpoint second = std::move(first);
  EXPECT_EQ(second.weights().embed.data, embed);
  EXPECT_EQ(second.weights().layers[1].mlp_mixer.score.Row<float>(0)[5], score);
  EXPECT_NE(At(second.weights().embed, 2815, 95), 0.0F);
}

// Kills: stopping at the first wrong tensor; a message without file, name, found or expected.
TEST_F(DamagedCheckpoint, NamesAllWrongTensorsTogether) {
  EditFile(file(), [&](ordered_json& header, std::string& data) {
    header[Tensor("self_attn.q_proj.weight")]["shape"] = {48, 192};
    header[Tensor("input_layernorm.weight")]["dtype"] = "F16";
    const ordered_json moved = header[Tensor("self_attn.dt_bias")];
    header.erase(Tensor("self_attn.dt_bias"));
    header["language_model.model.layers.0.self_attn.dt_biases"] = moved;
    header["vision_tower.patch_embed.proj.weight"] = {
        {"dtype", "BF16"}, {"shape", {1}}, {"data_offsets", {data.size(), data.size() + 2}}};
    data += "zz";
  });
  const std::string message = Refusal(dir());
  EXPECT_THAT(message, HasSubstr("model.safetensors: language_model.model.layers.0.self_attn."
                                 "q_proj.weight: found shape [48, 192], expected [96, 96]"));
  EXPECT_THAT(message, HasSubstr("input_layernorm.weight: found dtype F16, expected BF16"));
  EXPECT_THAT(message, HasSubstr("self_attn.dt_bias: missing, expected F32 [96]"));
  EXPECT_THAT(message, HasSubstr("self_attn.dt_biases: found this tensor, expected none"));
  EXPECT_THAT(message, Not(HasSubstr("vision_tower")));
}

// Kills: an endless message, or one that hides how much is wrong.
TEST_F(DamagedCheckpoint, CapsTheListAndCounts) {
  EditFile(file(), [](ordered_json& header, std::string& data) {
    header = {
        {"x", {{"dtype", "U8"}, {"shape", {data.size()}}, {"data_offsets", {0, data.size()}}}}};
  });
  EXPECT_THAT(Refusal(dir()), HasSubstr("... and 271 more, 321 faults in all"));
}

// Kills: an F32 tensor read at an address the machine may not load from.
TEST_F(DamagedCheckpoint, RefusesUnalignedFloats) {
  std::string bytes = Slurp(file());
  const std::uint64_t length = HeaderLength(bytes);
  bytes = LengthPrefix(length + 1) + bytes.substr(kLengthBytes, length) + " " +
          bytes.substr(kLengthBytes + length);
  Spill(file(), bytes);
  EXPECT_THAT(Refusal(dir()), AllOf(HasSubstr("A_log"), HasSubstr("a multiple of 4 for F32")));
}

// Kills: scale bytes that decode to infinity and surface as NaN logits hours later.
TEST_F(DamagedCheckpoint, RefusesNanScales) {
  EditFile(file(), [&](ordered_json& header, std::string& data) {
    const auto& scale =
        header["language_model.model.layers.2.block_sparse_moe.experts.5.w2.weight_scale"];
    data[scale["data_offsets"][1].get<std::size_t>() - 1] = '\xff';
  });
  EXPECT_THAT(Refusal(dir()), AllOf(HasSubstr("model.safetensors"), HasSubstr("found 255")));
}

// Kills: a truncated file that opens and faults at its first use.
TEST_F(DamagedCheckpoint, TruncationIsSeenAtOpen) {
  for (const std::uintmax_t bytes :
       {fs::file_size(file()) - 1, std::uintmax_t{20000}, std::uintmax_t{8}, std::uintmax_t{0}}) {
    fs::resize_file(file(), bytes);
    EXPECT_THAT(Refusal(dir()), HasSubstr("model.safetensors: ")) << bytes;
    EXPECT_THAT(Refusal(dir()), HasSubstr("cannot be used, expected 320 tensors in it")) << bytes;
  }
}

// Kills: a crash or an empty message where files are absent or are something else.
TEST_F(DamagedCheckpoint, AbsentFilesAreNamed) {
  fs::remove(file());
  EXPECT_THAT(Refusal(dir()), HasSubstr("neither model.safetensors.index.json nor"));
  fs::create_directory(file());
  EXPECT_THAT(Refusal(dir()), HasSubstr("model.safetensors: is not a regular file"));
  Spill(dir() + "/config.json", "{}");
  EXPECT_THAT(Refusal(dir()), HasSubstr("config.json: text_config: found nothing"));
  fs::remove(dir() + "/config.json");
  EXPECT_THAT(Refusal(dir()), HasSubstr("config.json: cannot open it: No such file"));
  EXPECT_THAT(Refusal("/nonexistent"), HasSubstr("/nonexistent: no such directory"));
}

// Kills: SIGBUS as a core dump without a word; a handler that names no file.
TEST_F(DamagedCheckpoint, ShrinkingUnderUsIsAFatalMessage) {
  const auto shrink_and_touch = [&] {
    InstallMappingFaultHandler();
    const Checkpoint checkpoint = MustOpen(dir());
    fs::resize_file(file(), 100'000);
    std::printf("%f\n", static_cast<double>(At(checkpoint.weights().lm_head, 2815, 0)));
  };
  EXPECT_EXIT(shrink_and_touch(), testing::ExitedWithCode(kMappingFaultExitCode),
              "fatal: .*model.safetensors: cannot read byte .* truncated");
}

// A made nano checkpoint: ten shards and an index.
class ShardedCheckpoint : public testing::Test {
 protected:
  const std::string& dir() const { return dir_; }
  std::string Shard(int number) const {
    return dir_ + "/model-0000" + std::to_string(number) + "-of-000010.safetensors";
  }
  void EditIndex(const std::function<void(ordered_json& map)>& edit) const {
    const std::string path = dir_ + "/model.safetensors.index.json";
    ordered_json index = ordered_json::parse(Slurp(path));
    edit(index["weight_map"]);
    Spill(path, index.dump());
  }

 private:
  TemporaryDirectory temporary_;
  std::string dir_ = MakePreset("nano", temporary_.path() + "/n");
};

// Kills: progress that never ends or runs backwards; a warm-up that skips files.
TEST_F(ShardedCheckpoint, OpensWithProgressAndWarmsUp) {
  std::vector<double> fractions;
  std::int64_t last_bytes = 0;
  const auto note = [&](const LoadProgress& progress) {
    fractions.push_back(progress.fraction);
    EXPECT_GE(progress.bytes_done, last_bytes);
    last_bytes = progress.bytes_done;
  };
  const Result<Checkpoint> opened = Checkpoint::Open(dir() + "//", {note});
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(fractions.size(), 11U);
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_EQ(fractions.back(), 1.0);
  EXPECT_GT(last_bytes, opened.value().total_bytes());
  last_bytes = 0;
  EXPECT_TRUE(opened.value().Warmup(note).ok());
  EXPECT_EQ(fractions.back(), 1.0);
  EXPECT_GT(last_bytes, opened.value().total_bytes());
}

// Kills: one line for each of a lost file's hundreds of tensors, burying the other faults.
TEST_F(ShardedCheckpoint, MissingAndDamagedShardsAreOneFaultEach) {
  fs::remove(Shard(2));
  fs::resize_file(Shard(4), fs::file_size(Shard(4)) - 1);
  EditFile(Shard(3), [](ordered_json& header, std::string&) {
    header["language_model.model.layers.2.input_layernorm.weight"]["dtype"] = "F16";
  });
  const std::string message = Refusal(dir());
  EXPECT_THAT(message, HasSubstr("model-00002-of-000010.safetensors: cannot open it: No such"));
  EXPECT_THAT(message,
              HasSubstr("model-00002-of-000010.safetensors: cannot be used, expected 220"));
  EXPECT_THAT(message, AllOf(HasSubstr("model-00004-of-000010.safetensors: language"),
                             HasSubstr("is it truncated?")));
  EXPECT_THAT(message, HasSubstr("layers.2.input_layernorm.weight: found dtype F16"));
  EXPECT_LT(std::count(message.begin(), message.end(), '\n'), 6);
}

// Kills: an index that is not checked against the files, or that leads out of the directory.
TEST_F(ShardedCheckpoint, IndexAndFilesMustAgree) {
  const std::string embed = "language_model.model.embed_tokens.weight";
  EditIndex([&](ordered_json& map) {
    map[embed] = "model-00001-of-000010.safetensors";
    map["language_model.model.norm.weight"] = "../model.safetensors";
    map["language_model.model.extra"] = "model-00001-of-000010.safetensors";
    map.erase("language_model.lm_head.weight");
    map["vision_tower.x"] = "model-00011-of-000010.safetensors";
    map["mm_projector.x"] = "../../etc/passwd";
  });
  const std::string message = Refusal(dir());
  EXPECT_THAT(message, HasSubstr("model-00001-of-000010.safetensors: " + embed + ": missing"));
  EXPECT_THAT(message, HasSubstr(embed + ": found in this file, expected by the index in "
                                         "model-00001-of-000010.safetensors"));
  EXPECT_THAT(message, HasSubstr("norm.weight: found the file \"../model.safetensors\""));
  EXPECT_THAT(message, HasSubstr("language_model.model.extra: found this tensor"));
  EXPECT_THAT(message, HasSubstr("index.json: language_model.lm_head.weight: missing"));
  EXPECT_THAT(message, Not(HasSubstr("passwd")));
  EXPECT_THAT(message, Not(HasSubstr("00011")));
}

// Kills: vision shards that must exist for a text server.
TEST_F(ShardedCheckpoint, VisionShardsNeedNotExist) {
  EditIndex([](ordered_json& map) {
    map["vision_tower.x"] = "model-00011-of-000010.safetensors";
    map["mm_projector.proj.0.weight"] = "model-00012-of-000010.safetensors";
  });
  EXPECT_EQ(MustOpen(dir()).num_tensors(), 1770);
}

// Kills: a fingerprint that misses the config, a header or the weights, or that sees the path.
TEST_F(ShardedCheckpoint, FingerprintSeesContentOnly) {
  const std::string before = MustOpen(dir()).fingerprint();
  EXPECT_EQ(before.size(), 32U);
  const std::string elsewhere = dir() + "-moved";
  fs::copy(dir(), elsewhere);
  EXPECT_EQ(MustOpen(elsewhere).fingerprint(), before);
  std::string config = Slurp(elsewhere + "/config.json");
  Spill(elsewhere + "/config.json", config + "\n");
  EXPECT_NE(MustOpen(elsewhere).fingerprint(), before);
  Spill(elsewhere + "/config.json", config);
  const std::string last = elsewhere + "/model-00010-of-000010.safetensors";
  EditFile(last, [](ordered_json&, std::string& data) { data[data.size() - 600] ^= 1; });
  EXPECT_NE(MustOpen(elsewhere).fingerprint(), before);
}

}  // namespace
}  // namespace k3::runtime
