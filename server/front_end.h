// What every call needs, on every surface. All outlive the servers that use them.
#pragma once
#include "server/lifecycle.h"
#include "server/metrics.h"
#include "server/text_pool.h"

namespace k3::server {

struct FrontEnd {
  const Lifecycle& lifecycle;
  Metrics& metrics;
  TextPool& pool;
};

}  // namespace k3::server
