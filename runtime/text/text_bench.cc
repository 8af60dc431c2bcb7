// MB/s of encoding and decoding. Run in the repository root; K3_SHARED adds the real vocabulary.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <benchmark/benchmark.h>

#include "runtime/text/detokenizer.h"
#include "runtime/text/tokenizer.h"

namespace k3::runtime {
namespace {

constexpr std::size_t kTextBytes = 1 << 20;

Result<Vocabulary> BenchVocabulary() {
  const char* shared = std::getenv("K3_SHARED");
  const std::filesystem::path real =
      std::filesystem::path(shared != nullptr ? shared : "../shared") /
      "real/kimi-tokenizer/tiktoken.model";
  if (std::filesystem::exists(real)) return Vocabulary::LoadRanks(real.string());
  return Vocabulary::Load("tests/golden/k3-micro");
}

const Tokenizer& BenchTokenizer() {
  static const Tokenizer tokenizer(BenchVocabulary().value());
  return tokenizer;
}

std::string Repeat(const std::string& unit) {
  std::string text;
  while (text.size() < kTextBytes) text += unit;
  return text;
}

const std::string& Mixed() {
  static const std::string text = Repeat(
      "The cache holds 1,024 pages; don't evict them all at once.\n"
      "  for (int i = 0; i < count; ++i) { sum += values[i] * kScale; }\n"
      "前缀只计算一次，之后的请求直接复用。 これは日本語の文です。 Ça coûte 12,50 €.\n");
  return text;
}

void EncodeText(benchmark::State& state, const std::string& text) {
  const Tokenizer& tokenizer = BenchTokenizer();
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer.Encode(text));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

void Decode(benchmark::State& state) {
  const Tokenizer& tokenizer = BenchTokenizer();
  const std::vector<std::int32_t> ids = tokenizer.Encode(Mixed());
  for (auto _ : state) {
    Detokenizer detokenizer(tokenizer.vocabulary());
    for (const std::int32_t id : ids) benchmark::DoNotOptimize(detokenizer.Push(id));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(Mixed().size()));
}

void Split(benchmark::State& state) {
  const PieceSplitter splitter;
  std::vector<std::string_view> pieces;
  for (auto _ : state) {
    pieces.clear();
    for (const std::string_view cut : CutLongInput(Mixed())) splitter.Split(cut, pieces);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(Mixed().size()));
}

void Load(benchmark::State& state) {
  for (auto _ : state) {
    const Tokenizer tokenizer(BenchVocabulary().value());
    benchmark::DoNotOptimize(tokenizer.vocabulary().size());
  }
}

BENCHMARK_CAPTURE(EncodeText, mixed, Mixed());
BENCHMARK_CAPTURE(EncodeText, one_letter, Repeat("a"));
BENCHMARK_CAPTURE(EncodeText, spaces, Repeat(" "));
BENCHMARK_CAPTURE(EncodeText, one_han, Repeat("中"));
BENCHMARK_CAPTURE(EncodeText, exclamation, Repeat("!"));
BENCHMARK(Split);
BENCHMARK(Decode);
BENCHMARK(Load)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace k3::runtime
