// How many rows of prefill a step may carry so that its decoding neighbours keep their latency.
// Learns from the steps that ran. Bits do not depend on it (design, section 6).
#pragma once

namespace k3::runtime {

class StepBudget {
 public:
  // `target_seconds`: of a step that decodes; 0: no limit. `max_rows`: of any step.
  StepBudget(double target_seconds, int max_rows);

  // `decoding`: whether a token of another sequence waits for the step's end.
  int PrefillRows(bool decoding) const;

  void Observe(int prefill_rows, int decode_rows, double seconds);

 private:
  double target_seconds_;
  int max_rows_;
  double decode_seconds_ = 0;  // of a step without prefill
  double row_seconds_ = 0;     // of one row more; 0: nothing seen yet
};

}  // namespace k3::runtime
