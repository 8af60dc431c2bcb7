// What each HTTP path answers. Reads atomics only.
//   /livez            200 while the process can still serve, 503 when the engine hangs in work
//   /readyz /health   200 when new work is taken, else 503 with phase and progress
//   /metrics          Prometheus text; /version
#pragma once
#include "server/front_end.h"
#include "server/http/http_server.h"

namespace k3::server {

// The lifecycle and the metrics outlive the handler.
HttpHandler MakeRoutes(const Lifecycle& lifecycle, Metrics& metrics);

}  // namespace k3::server
