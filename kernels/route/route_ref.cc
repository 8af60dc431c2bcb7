#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/ref_ops.h"

namespace k3::kernels::ref {
namespace {

// The ids of the k largest keys, ties to the lowest id, ascending.
std::vector<std::int32_t> TopIds(const std::vector<double>& keys, std::int64_t k) {
  std::vector<std::int32_t> ids(keys.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    return keys[static_cast<std::size_t>(a)] > keys[static_cast<std::size_t>(b)];
  });
  ids.resize(static_cast<std::size_t>(k));
  std::sort(ids.begin(), ids.end());
  return ids;
}

void RouteRow(const RouteArgs& args, std::int64_t t) {
  const float* logits = args.logits.Row<float>(t);
  const float* bias = args.bias.Row<float>(0);
  std::vector<double> scores, keys;
  double poison = 0;
  for (std::int64_t e = 0; e < args.logits.cols; ++e) {
    scores.push_back(1.0 / (1.0 + std::exp(-static_cast<double>(logits[e]))));
    const double key = scores.back() + bias[e];
    keys.push_back(std::isnan(key) ? -std::numeric_limits<double>::infinity() : key);
    if (std::isnan(key)) poison = key;
  }
  const std::vector<std::int32_t> ids = TopIds(keys, args.ids.cols);
  double sum = 1e-20;
  for (std::int32_t id : ids) sum += scores[static_cast<std::size_t>(id)];
  const double factor = (args.renormalize ? args.scaling / sum : args.scaling) + poison;
  for (std::size_t j = 0; j < ids.size(); ++j) {
    args.ids.Row<std::int32_t>(t)[j] = ids[j];
    args.weights.Row<float>(t)[j] =
        static_cast<float>(scores[static_cast<std::size_t>(ids[j])] * factor);
    if (!args.load.empty()) ++args.load.Row<std::int32_t>(0)[ids[j]];
  }
}

}  // namespace

void Route(const RouteArgs& args) {
  K3_CHECK(args.ids.cols <= args.logits.cols);
  for (std::int64_t t = 0; t < args.logits.rows; ++t) RouteRow(args, t);
}

}  // namespace k3::kernels::ref
