#include <vector>

#include <gtest/gtest.h>

#include "kernels/ref_ops.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/cpu_sets.h"
#include "kernels/testing/random.h"

namespace k3::kernels {
namespace {

// Kills: rows mixed up, a scale on embeddings, a lost tail (C = 37), rounding on the way.
TEST(Embed, WidensRowsExactly) {
  Random random(1);
  for (std::int64_t cols : {1, 37, 96, 7168}) {
    Matrix<Bf16> table(9, cols);
    random.FillNormal(table.span());
    const std::vector<std::int32_t> ids = {8, 0, 3, 3, 1};
    Matrix<float> want(5, cols);
    for (std::int64_t t = 0; t < 5; ++t)
      for (std::int64_t c = 0; c < cols; ++c)
        want.At(t, c) = ToFloat(table.At(ids[static_cast<std::size_t>(t)], c));
    Matrix<float> got(5, cols);
    const EmbedArgs args{ids.data(), table.view(), got.view()};
    ref::Embed(args);
    ExpectSameBits(got, want, "ref");
    for (const CpuOps* ops : AllCpuSets()) {
      for (float& value : got.span()) value = -1;
      RunCpu(ops->embed, args, 2);
      ExpectSameBits(got, want, ops->isa);
    }
  }
}

// Kills: an id beyond the table read as memory.
TEST(EmbedDeathTest, RefusesIdsOutsideTheTable) {
  const Matrix<Bf16> table(4, 16);
  Matrix<float> out(1, 16);
  for (std::int32_t id : {4, -1}) {
    const EmbedArgs args{&id, table.view(), out.view()};
    EXPECT_DEATH(RunCpu(BestCpuSet().embed, args), "CHECK failed");
    EXPECT_DEATH(ref::Embed(args), "CHECK failed");
  }
}

}  // namespace
}  // namespace k3::kernels
