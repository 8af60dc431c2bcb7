// Plain loops in double, one row and head after the other; latents rounded as they are stored.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/mla_attend/mla_attend.h"
#include "kernels/ref_ops.h"

namespace k3::kernels::ref {
namespace {

double Sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

class ReferenceRun {
 public:
  ReferenceRun(const MlaAttendArgs& args, int run) : args_(args), run_(run) {}

  int first_row() const { return args_.batch->run_first_row[run_]; }
  int end_row() const { return args_.batch->run_first_row[run_ + 1]; }

  void StoreRow(int row) const {
    const float* from = args_.kv_a.Row<float>(row);
    double sum = 0;
    for (int c = 0; c < args_.kv_rank; ++c) sum += static_cast<double>(from[c]) * from[c];
    const double rms = std::sqrt(sum / args_.kv_rank + args_.kv_norm_eps);
    for (int c = 0; c < Width(); ++c) {
      const double weight = c < args_.kv_rank ? ToFloat(args_.kv_norm.Row<Bf16>(0)[c]) / rms : 1.0;
      StoreElement(Position(row), c, static_cast<float>(weight * from[c]));
    }
  }

  void Attend(int row, int head) const {
    const int rows = Position(row) + 1;
    const std::vector<double> query = Query(row, head);
    std::vector<double> score(static_cast<std::size_t>(rows));
    double top = -std::numeric_limits<double>::infinity();
    for (int s = 0; s < rows; ++s) {
      double sum = 0;
      for (int c = 0; c < Width(); ++c) sum += query[static_cast<std::size_t>(c)] * Element(s, c);
      score[static_cast<std::size_t>(s)] =
          sum / std::sqrt(static_cast<double>(args_.nope_dim + args_.rope_dim));
      top = std::max(top, score[static_cast<std::size_t>(s)]);
    }
    std::vector<double> latent(static_cast<std::size_t>(args_.kv_rank));
    double total = 0;
    for (int s = 0; s < rows; ++s) {
      const double p = std::exp(score[static_cast<std::size_t>(s)] - top);
      total += p;
      for (int c = 0; c < args_.kv_rank; ++c)
        latent[static_cast<std::size_t>(c)] += p * Element(s, c);
    }
    for (double& value : latent) value /= total;
    Expand(row, head, latent);
  }

 private:
  int Width() const { return args_.kv_rank + args_.rope_dim; }
  int Position(int row) const { return args_.batch->run_position[run_] + row - first_row(); }

  std::byte* At(int position) const {
    const BatchView& batch = *args_.batch;
    const std::int64_t block = std::int64_t{run_} * batch.latent_stride + position / kGridTokens;
    return args_.pages + batch.latent_pages[block] * args_.layout->page_bytes +
           args_.layout->LatentOffset(args_.layer, position % kGridTokens);
  }
  bool Narrow() const { return args_.layout->geometry.latent_dtype == DType::kBf16; }
  void StoreElement(int position, int c, float value) const {
    if (Narrow()) {
      reinterpret_cast<Bf16*>(At(position))[c] = ToBf16(value);
    } else {
      reinterpret_cast<float*>(At(position))[c] = value;
    }
  }
  double Element(int position, int c) const {
    if (Narrow()) return ToFloat(reinterpret_cast<const Bf16*>(At(position))[c]);
    return reinterpret_cast<const float*>(At(position))[c];
  }

  const Bf16* KvB(int head, int row) const {
    return args_.kv_b.Row<Bf16>(std::int64_t{head} * (args_.nope_dim + args_.v_dim) + row);
  }

  std::vector<double> Query(int row, int head) const {
    const float* q =
        args_.q.Row<float>(row) + std::int64_t{head} * (args_.nope_dim + args_.rope_dim);
    std::vector<double> query(static_cast<std::size_t>(Width()));
    for (int d = 0; d < args_.nope_dim; ++d)
      for (int c = 0; c < args_.kv_rank; ++c)
        query[static_cast<std::size_t>(c)] += static_cast<double>(q[d]) * ToFloat(KvB(head, d)[c]);
    for (int c = 0; c < args_.rope_dim; ++c)
      query.data()[args_.kv_rank + c] = q[args_.nope_dim + c];
    return query;
  }

  void Expand(int row, int head, const std::vector<double>& latent) const {
    const std::int64_t channel = std::int64_t{head} * args_.v_dim;
    const float* gate = args_.gate.Row<float>(row) + channel;
    float* out = args_.out.Row<float>(row) + channel;
    for (int n = 0; n < args_.v_dim; ++n) {
      const Bf16* weight = KvB(head, args_.nope_dim + n);
      double sum = 0;
      for (int c = 0; c < args_.kv_rank; ++c)
        sum += latent[static_cast<std::size_t>(c)] * ToFloat(weight[c]);
      out[n] = static_cast<float>(sum * Sigmoid(gate[n]));
    }
  }

  const MlaAttendArgs& args_;
  const int run_;
};

}  // namespace

void MlaAttend(const MlaAttendArgs& args) {
  for (int run = 0; run < args.batch->runs; ++run) {
    const ReferenceRun reference(args, run);
    for (int row = reference.first_row(); row < reference.end_row(); ++row) reference.StoreRow(row);
  }
  for (int run = 0; run < args.batch->runs; ++run) {
    const ReferenceRun reference(args, run);
    for (int row = reference.first_row(); row < reference.end_row(); ++row)
      for (int head = 0; head < args.heads; ++head) reference.Attend(row, head);
  }
}

}  // namespace k3::kernels::ref
