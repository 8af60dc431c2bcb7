#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/text/testing.h"
#include "runtime/text/tokenizer.h"

namespace k3::runtime::testing {
namespace {

using Ids = std::vector<std::int32_t>;

// Kills: scratch space shared between threads.
TEST(Tokenizer, ManyThreadsGetWhatOneGets) {
  const Tokenizer tokenizer = LoadMicro();
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  for (const nlohmann::json& golden : ReadJsonLines("tests/golden/tokenizer.jsonl")) {
    if (golden.at("tag") == "guard" || !golden.contains("text")) continue;
    texts.push_back(golden.at("text").get<std::string>());
    expected.push_back(golden.at("ids").get<Ids>());
  }
  const auto encode_all = [&](std::vector<Ids>& ids) {
    for (const std::string& text : texts) ids.push_back(tokenizer.Encode(text));
  };
  std::vector<std::vector<Ids>> results(4);
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  for (std::vector<Ids>& result : results) threads.emplace_back(encode_all, std::ref(result));
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<Ids>& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace k3::runtime::testing
