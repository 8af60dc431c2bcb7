#include "kernels/testing/roofline.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <immintrin.h>
#include <memory>
#include <vector>

namespace k3::kernels {
namespace {

constexpr std::int64_t kReadBytes = std::int64_t{512} << 20;
constexpr std::int64_t kWindow = std::int64_t{8} << 20;
constexpr std::int64_t kFmaRounds = 2'000'000;
constexpr int kChains = 12;

[[gnu::target("avx2")]] float SumAvx2(const std::byte* data, std::int64_t bytes) {
  __m256i sum[4] = {};
  for (std::int64_t i = 0; i < bytes; i += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(data + i + 4096), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(data + i + 4160), _MM_HINT_T0);
    for (int j = 0; j < 4; ++j) {
      const auto* p = reinterpret_cast<const __m256i*>(data + i + std::ptrdiff_t{32} * j);
      sum[j] = _mm256_add_epi32(sum[j], _mm256_load_si256(p));
    }
  }
  const __m256i all =
      _mm256_add_epi32(_mm256_add_epi32(sum[0], sum[1]), _mm256_add_epi32(sum[2], sum[3]));
  return static_cast<float>(_mm256_extract_epi32(all, 0));
}

float SumPlain(const std::byte* data, std::int64_t bytes) {
  std::int64_t sum[4] = {};
  const auto* words = reinterpret_cast<const std::int64_t*>(data);
  for (std::int64_t i = 0; i < bytes / 8; i += 4)
    for (int j = 0; j < 4; ++j) sum[j] += words[i + j];
  return static_cast<float>(sum[0] + sum[1] + sum[2] + sum[3]);
}

[[gnu::target("avx512f")]] float ChainsAvx512(std::int64_t rounds) {
  __m512 a[kChains];
  const __m512 x = _mm512_set1_ps(0.999F);
  for (__m512& v : a) v = _mm512_set1_ps(1.0F);
  for (std::int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) a[j] = _mm512_fmadd_ps(a[j], x, x);
  for (int j = 1; j < kChains; ++j) a[0] = _mm512_add_ps(a[0], a[j]);
  return _mm512_cvtss_f32(a[0]);
}

[[gnu::target("avx2,fma")]] float ChainsAvx2(std::int64_t rounds) {
  __m256 a[kChains];
  const __m256 x = _mm256_set1_ps(0.999F);
  for (__m256& v : a) v = _mm256_set1_ps(1.0F);
  for (std::int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) a[j] = _mm256_fmadd_ps(a[j], x, x);
  for (int j = 1; j < kChains; ++j) a[0] = _mm256_add_ps(a[0], a[j]);
  return _mm256_cvtss_f32(a[0]);
}

float ChainsPlain(std::int64_t rounds) {
  __m128 a[kChains];
  const __m128 x = _mm_set1_ps(0.999F);
  for (__m128& v : a) v = _mm_set1_ps(1.0F);
  for (std::int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) a[j] = _mm_add_ps(_mm_mul_ps(a[j], x), x);
  for (int j = 1; j < kChains; ++j) a[0] = _mm_add_ps(a[0], a[j]);
  return _mm_cvtss_f32(a[0]);
}

}  // namespace

double NowSeconds(const ThreadTeam& team) {
  if (team.size() == 1) {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double ReadRoof(ThreadTeam& team) {
  const bool wide = __builtin_cpu_supports("avx2");
  std::vector<std::byte> memory(static_cast<std::size_t>(kReadBytes + 8192), std::byte{1});
  auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::byte* data = memory.data() + (64 - address % 64) % 64;
  std::vector<float> sink(static_cast<std::size_t>(kReadBytes / kWindow));
  double best = 0;
  constexpr std::int64_t kPieces = kReadBytes / kWindow;
  constexpr std::int64_t kQuarter = kPieces / 4;
  for (std::int64_t pass = 0; pass < std::int64_t{3} * 4; ++pass) {
    const std::int64_t first = pass % 4 * kQuarter;
    const double start = NowSeconds(team);
    ParallelFor(team, kQuarter, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = first + begin; i < first + end; ++i) {
        const std::byte* piece = data + i * kWindow;
        sink[static_cast<std::size_t>(i)] =
            wide ? SumAvx2(piece, kWindow) : SumPlain(piece, kWindow);
      }
    });
    best = std::max(best, static_cast<double>(kQuarter * kWindow) / (NowSeconds(team) - start));
  }
  return best;
}

double FmaRoof(ThreadTeam& team) {
  const bool has512 = __builtin_cpu_supports("avx512f");
  const bool has256 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const int lanes = has512 ? 16 : has256 ? 8 : 4;
  std::vector<float> sink(static_cast<std::size_t>(team.size()));
  double best = 0;
  for (int pass = 0; pass < 5; ++pass) {
    const double start = NowSeconds(team);
    ParallelFor(team, team.size(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        sink[static_cast<std::size_t>(i)] = has512   ? ChainsAvx512(kFmaRounds)
                                            : has256 ? ChainsAvx2(kFmaRounds)
                                                     : ChainsPlain(kFmaRounds);
    });
    const double flops = 2.0 * lanes * kChains * static_cast<double>(kFmaRounds) * team.size();
    best = std::max(best, flops / (NowSeconds(team) - start));
  }
  return best;
}

}  // namespace k3::kernels
