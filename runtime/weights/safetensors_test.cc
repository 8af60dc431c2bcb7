#include "runtime/weights/safetensors.h"

#include <cstdio>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/weights/shard_index.h"
#include "runtime/weights/test_files.h"

namespace k3::runtime {
namespace {

using testing::HasSubstr;

std::string HeaderFault(const std::string& json, std::uint64_t data_bytes) {
  const auto parsed = ParseSafetensorsHeader(json, data_bytes, "x.safetensors");
  return parsed.ok() ? "(accepted)" : parsed.error().message;
}

std::string FileFault(const std::string& bytes) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/x.safetensors";
  Spill(path, bytes);
  const Result<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.error().message;
  const Result<SafetensorsHeader> header = ReadSafetensorsHeader(file.value());
  return header.ok() ? "(accepted)" : header.error().message;
}

std::string Entry(const std::string& name, const std::string& rest) {
  return '"' + name + "\":{" + rest + "}";
}

// Kills: order of the header taken for order of the bytes, scalars and empty tensors refused.
TEST(Safetensors, ReadsAHeader) {
  const std::string json =
      "{" + Entry("b", R"("dtype":"F32","shape":[2,3],"data_offsets":[4,28])") + "," +
      Entry("__metadata__", R"("format":"pt","shape":"x")") + "," +
      Entry("a", R"("data_offsets":[0,4],"shape":[2],"dtype":"BF16")") + "," +
      Entry("c", R"("dtype":"U8","shape":[0,9],"data_offsets":[28,28])") + "," +
      Entry("d", R"("dtype":"F32","shape":[],"data_offsets":[28,32])") + "}";
  const auto parsed = ParseSafetensorsHeader(json, 32, "x");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed.value().size(), 4U);
  EXPECT_EQ(parsed.value()[0].name, "a");
  EXPECT_EQ(parsed.value()[1].name, "b");
  EXPECT_EQ(parsed.value()[1].dtype, "F32");
  EXPECT_EQ(parsed.value()[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(parsed.value()[1].begin, 4U);
  EXPECT_EQ(parsed.value()[1].end, 28U);
}

// Kills: offsets believed; begin + size or a product of extents that wraps around 64 bits.
TEST(Safetensors, RefusesWrongRanges) {
  const auto two = [](const std::string& first, const std::string& second) {
    return "{" + Entry("a", R"("dtype":"U8","shape":[4],"data_offsets":)" + first) + "," +
           Entry("b", R"("dtype":"U8","shape":[4],"data_offsets":)" + second) + "}";
  };
  EXPECT_EQ(HeaderFault(two("[0,4]", "[4,8]"), 8), "(accepted)");
  EXPECT_THAT(HeaderFault(two("[0,4]", "[3,7]"), 8), HasSubstr("b: found bytes [3, 7)"));
  EXPECT_THAT(HeaderFault(two("[0,4]", "[3,7]"), 8), HasSubstr("overlap"));
  EXPECT_THAT(HeaderFault(two("[0,4]", "[5,9]"), 9), HasSubstr("gap"));
  EXPECT_THAT(HeaderFault(two("[0,4]", "[4,8]"), 9), HasSubstr("found 9 bytes of data"));
  EXPECT_THAT(HeaderFault(two("[0,4]", "[4,8]"), 7), HasSubstr("truncated?"));
  EXPECT_THAT(HeaderFault(two("[0,4]", "[8,4]"), 8), HasSubstr("b: found bytes [8, 4)"));
  EXPECT_THAT(HeaderFault(two("[0,3]", "[3,7]"), 7), HasSubstr("a: found 3 bytes, expected 4"));
  EXPECT_THAT(HeaderFault(two("[0,4]", "[4,18446744073709551615]"), 8), HasSubstr("b: found"));
  const std::string wraps =
      "{" + Entry("a", R"("dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4])") + "}";
  EXPECT_THAT(HeaderFault(wraps, 4), HasSubstr("more than 2^64"));
}

// Kills: a header of other JSON that crashes or is half understood.
TEST(Safetensors, RefusesOtherJson) {
  const std::vector<std::string> wrong = {
      "",
      "{",
      "[]",
      "7",
      "null",
      "{\"a\":1}",
      "{\"a\":[]}",
      "{\"a\":{}}",
      "\x80",
      R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[1]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})",
      R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,99999999999999999999999]}})",
      R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[4,4]},)"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      R"({"__metadata__":{"a":{}}})",
  };
  for (const std::string& json : wrong) {
    EXPECT_THAT(HeaderFault(json, 4), HasSubstr("x.safetensors: ")) << json;
  }
  EXPECT_THAT(HeaderFault(std::string(1 << 16, '['), 4), HasSubstr("found an array"));
}

// Kills: a header length that is believed (huge, negative, one past the end of the file).
TEST(Safetensors, RefusesLyingLengths) {
  EXPECT_THAT(FileFault(""), HasSubstr("is empty"));
  EXPECT_THAT(FileFault("1234567"), HasSubstr("found 7 bytes"));
  for (const std::uint64_t length :
       {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{100'000'001}, std::uint64_t{3}}) {
    EXPECT_THAT(FileFault(LengthPrefix(length) + "{}"),
                HasSubstr("header length of " + std::to_string(length)));
  }
  EXPECT_THAT(FileFault(LengthPrefix(0)), HasSubstr("not JSON"));
  EXPECT_EQ(FileFault(LengthPrefix(2) + "{}"), "(accepted)");
}

// Kills: any read outside the header's text, whatever its bytes (run under ASan).
TEST(Safetensors, DamagedHeadersNeverCrash) {
  const TemporaryDirectory dir;
  const std::string file = Slurp(MakePreset("micro", dir.path() + "/m") + "/model.safetensors");
  const std::uint64_t length = HeaderLength(file);
  // A part of the header that is a header itself: rounds are many, so they must be short.
  std::string json = file.substr(kLengthBytes, length).substr(0, 4000);
  json = json.substr(0, json.rfind(",\"language")) + "}";
  const auto seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = json;
    for (std::uint32_t flips = 1 + random() % 4; flips > 0; --flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    const auto parsed = ParseSafetensorsHeader(damaged, random() % 100000, "x");
    if (parsed.ok()) {
      ++accepted;
    } else {
      EXPECT_FALSE(parsed.error().message.empty());
    }
  }
  EXPECT_LT(accepted, 3000);
}

// Kills: an index whose entries come from elsewhere than weight_map; other JSON taken for one.
TEST(ShardIndex, ReadsWeightMapOnly) {
  std::vector<std::string> seen;
  const IndexEntry entry = [&](std::string_view tensor, std::string_view file) {
    seen.push_back(std::string(tensor) + ">" + std::string(file));
  };
  const auto fault = [&](const std::string& json) {
    const Result<Ok> parsed = ParseShardIndex(json, "i.json", entry);
    return parsed.ok() ? "" : parsed.error().message;
  };
  EXPECT_EQ(fault(R"({"metadata":{"total_size":1,"x":{"weight_map":"n"}},"y":["z",{"weight_map":
      "n"}],"weight_map":{"a":"f1","b":"f2"},"c":"d"})"),
            "");
  EXPECT_EQ(seen, (std::vector<std::string>{"a>f1", "b>f2"}));
  EXPECT_THAT(fault(R"({"weight_map":{"a":1}})"), HasSubstr("weight_map.a"));
  EXPECT_THAT(fault(R"({"weight_map":{"a":{}}})"), HasSubstr("weight_map.a"));
  EXPECT_THAT(fault(R"({"weight_map":"a"})"), HasSubstr("no object \"weight_map\""));
  EXPECT_THAT(fault(R"([{"weight_map":{"a":"b"}}])"), testing::_);
  EXPECT_THAT(fault("{\"weight_map\":{\"a\":\"b\""), HasSubstr("is not JSON at its byte"));
  EXPECT_THAT(fault(""), HasSubstr("is not JSON"));
}

}  // namespace
}  // namespace k3::runtime
