// What `k3ctl top` shows, as plain text. Pure: two snapshots of one server in, lines out.
//   1. Rates and the mean step are differences over the server's own clock; "-" where there are
//      none: the same snapshot twice, or a server that started anew in between.
//   2. No line is longer than `width` bytes; every line ends in a newline.
//   3. What a client chose (ids, tenants) cannot move the cursor: control bytes show as '?'.
#pragma once
#include <string>

namespace k3serve::v1 {
class LoadSnapshot;
}

namespace k3::server::ctl {

std::string TopView(const k3serve::v1::LoadSnapshot& before, const k3serve::v1::LoadSnapshot& now,
                    int width);

}  // namespace k3::server::ctl
