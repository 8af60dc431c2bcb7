// The reference's ops: plain loops in double, one thread. Each is defined in its `x_ref.cc`.
#pragma once
#include "kernels/backend.h"

namespace k3::kernels::ref {

std::int64_t KdaWindowBytes(const PageLayout& layout);
void Copy(const CopyArgs& args);
void Embed(const EmbedArgs& args);
void ResidualNorm(const ResidualNormArgs& args);
void Linear(const LinearArgs& args);
void KdaMix(const KdaMixArgs& args);
void MlaAttend(const MlaAttendArgs& args);
void Route(const RouteArgs& args);
void Experts(const ExpertsArgs& args);
void Sample(const SampleArgs& args);

}  // namespace k3::kernels::ref
