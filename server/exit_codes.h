// What k3serve's exit code says; 74, a weights file that shrank, comes from runtime/weights.
#pragma once

namespace k3::server {

inline constexpr int kExitClean = 0;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitBadModel = 3;
inline constexpr int kExitPortInUse = 4;
inline constexpr int kExitCannotStart = 5;

}  // namespace k3::server
