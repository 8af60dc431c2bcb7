// A residual_norm to solve, and its answer in double straight from the header's formula: for the
// tests of the GPU sibling, on the CPU (tests/simt) and on a GPU.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/residual_norm/residual_norm.h"

namespace k3::kernels {

// Sources of unlike size: bf16 activations, then P in fp32, in rows wider than C; rows gathered.
struct ResidualNormProblem {
  ResidualNormProblem(int num_sources, int rows, int cols);
  ResidualNormArgs Args(Tensor out) const;
  std::vector<double> Mix(int row) const;  // of a source row
  std::vector<double> Want(int row) const;
  int WrongValues(const std::vector<float>& got) const;  // in a dense F32 output

  int n, t, c;
  std::vector<float> values, score;
  std::vector<Bf16> halves, weight;
  std::vector<std::int32_t> gather;
  std::vector<Tensor> sources;

 private:
  double Source(int i, int row, int k) const;
};

}  // namespace k3::kernels
