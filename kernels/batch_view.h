// One step as the ops see it: rows, grouped into runs. A run is consecutive positions of one
// context in consecutive rows: a prefill chunk, one decode row, or a draft to verify.
//   1. All arrays live in the backend's memory and are written once per step, before the first op.
//   2. Ops read lengths and tables from here, never from host scalars, `rows` and `runs` aside.
//   3. A row's result may depend on its own context only, never on the other runs.
#pragma once
#include <cstdint>

namespace k3::kernels {

struct BatchView {
  int rows = 0;
  int runs = 0;
  const std::int32_t* tokens = nullptr;         // [rows]
  const std::int32_t* run_first_row = nullptr;  // [runs + 1]; the last is `rows`
  const std::int32_t* run_position = nullptr;   // [runs] absolute position of the first row
  const std::int32_t* run_slot = nullptr;       // [runs] which window the context owns

  // Latent pages of each context, one per 16-token block, enough for its last row.
  const std::int32_t* latent_pages = nullptr;  // [runs, latent_stride]
  int latent_stride = 0;

  // KDA state at the last grid point before the run: read from `source`. Each grid point the run
  // passes is folded into `target`; a run that passes none writes nothing. They may be the same.
  const std::int32_t* state_source = nullptr;  // [runs, state_pages]
  const std::int32_t* state_target = nullptr;  // [runs, state_pages]
  int state_pages = 0;

  // Snapshots on the way: when run `export_run[e]` passes grid position `export_position[e]`, its
  // state is also written to export_pages[e]. A chunk is never cut for one.
  int exports = 0;
  const std::int32_t* export_run = nullptr;       // [exports]
  const std::int32_t* export_position = nullptr;  // [exports] multiples of 16
  const std::int32_t* export_pages = nullptr;     // [exports, state_pages]

  // Rows whose logits are wanted, ascending.
  int logit_rows = 0;
  const std::int32_t* logit_row = nullptr;  // [logit_rows]
};

}  // namespace k3::kernels
