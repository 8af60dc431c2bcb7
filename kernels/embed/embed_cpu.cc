#include "kernels/cpu_ops.h"
#include "kernels/simd/simd.h"

namespace k3::kernels::K3_ISA {
namespace {

void WidenRow(const Bf16* row, float* out, std::int64_t cols) {
  std::int64_t c = 0;
  for (; c + kLanes <= cols; c += kLanes) Store(out + c, LoadBf16(row + c));
  for (; c < cols; ++c) out[c] = ToFloat(row[c]);
}

}  // namespace

void Embed(const EmbedArgs& args, CpuContext& context) {
  K3_CHECK(args.out.cols == args.table.cols);
  ParallelFor(context.team, args.out.rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int32_t id = args.ids[t];
      K3_CHECK(id >= 0);
      K3_CHECK(id < args.table.rows);
      WidenRow(args.table.Row<Bf16>(id), args.out.Row<float>(t), args.out.cols);
    }
  });
}

}  // namespace k3::kernels::K3_ISA
