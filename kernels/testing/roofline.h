// What this machine can do at best, measured in the same process as the kernel under test: a share
// of these is what a bench prints.
#pragma once
#include <cstdint>

#include "kernels/base/thread_team.h"

namespace k3::kernels {

// Bytes per second of a plain read loop over memory far larger than the caches; the best of a few
// windows.
double ReadRoof(ThreadTeam& team);

// fp32 multiply-adds per second times two, on the widest vectors of this CPU.
double FmaRoof(ThreadTeam& team);

// The clock both roofs use. With one thread it counts that thread's own CPU time, so that a
// neighbour who takes the core away spoils nothing; with more it is the wall's.
double NowSeconds(const ThreadTeam& team);

}  // namespace k3::kernels
