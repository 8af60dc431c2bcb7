#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu_isa.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/cpu_sets.h"
#include "kernels/testing/random.h"

namespace k3::kernels {
namespace {

using ::testing::HasSubstr;

// Kills: a name that falls through to some backend, an error that does not name the choices.
TEST(Backend, NamesItsChoices) {
  EXPECT_EQ(MakeBackend("ref", {}).value()->name(), "ref");
  EXPECT_EQ(MakeBackend("cpu", {}).value()->name(), "cpu");
  const auto wrong = MakeBackend("gpu", {});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, Code::kInvalidArgument);
  EXPECT_THAT(wrong.error().message, HasSubstr("ref, cpu or cuda"));
}

// Kills: a set that the CPU lacks accepted (it would die of an illegal instruction), a fallback
// that nobody asked for, the wrong set behind a name.
TEST(Backend, TakesTheSetItIsTold) {
  for (const CpuIsa& isa : UsableIsas()) {
    const auto backend = MakeCpuBackend({.threads = 1, .isa = std::string(isa.name)});
    ASSERT_TRUE(backend.ok());
    EXPECT_EQ(backend.value()->isa(), isa.name);
    std::string as_namespace(isa.name);
    std::replace(as_namespace.begin(), as_namespace.end(), '-', '_');
    EXPECT_EQ(as_namespace, isa.ops->isa);
  }
  EXPECT_EQ(MakeCpuBackend({}).value()->isa(), UsableIsas().front().name);
  const auto wrong = MakeCpuBackend({.threads = 1, .isa = "neon"});
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().message, HasSubstr("neon"));
  EXPECT_THAT(wrong.error().message, HasSubstr("x86-64"));
  EXPECT_FALSE(MakeCpuBackend({.threads = -1, .isa = ""}).ok());
}

// Kills: memory that is not zeroed or not aligned, a crash instead of an error when there is none.
TEST(Backend, MemoryIsZeroedAlignedOrRefused) {
  for (const char* name : {"ref", "cpu"}) {
    auto backend = MakeBackend(name, {});
    auto memory = backend.value()->Allocate(100'001);
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.value().data()) % 64, 0U);
    for (int i = 0; i < 100'001; ++i) ASSERT_EQ(memory.value().data()[i], std::byte{0});
    EXPECT_TRUE(backend.value()->Allocate(0).ok());
    const auto none = backend.value()->Allocate(std::size_t{1} << 62);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().code, Code::kResourceExhausted);
    EXPECT_THAT(none.error().message, HasSubstr(std::to_string(std::size_t{1} << 62)));
  }
}

// Kills: scratch that is not given back between ops, bytes lost on the way to the device or back.
TEST(Backend, OpsRunOnItsMemory) {
  Random random(1);
  Matrix<Bf16> weight(20, 96);
  Matrix<float> x(3, 96), first(3, 20), second(3, 20);
  random.FillNormal(weight.span());
  random.FillNormal(x.span());
  auto backend = std::move(MakeBackend("cpu", {.threads = 2, .isa = ""}).value());
  auto memory = std::move(backend->Allocate(x.span().size_bytes()).value());
  backend->Upload(memory.data(), x.Row(0), x.span().size_bytes());
  for (Matrix<float>* out : {&first, &second}) {
    const LinearSegment segment{weight.view(), {}, out->view(), false};
    const auto* there = reinterpret_cast<const float*>(memory.data());
    backend->Linear({View(there, 3, 96), {}, 0, 0, 0, &segment, 1});
  }
  backend->Synchronize();
  ExpectSameBits(first, second);
  Matrix<float> back(3, 96);
  backend->Download(back.Row(0), memory.data(), x.span().size_bytes());
  ExpectSameBits(back, x);
}

}  // namespace
}  // namespace k3::kernels
