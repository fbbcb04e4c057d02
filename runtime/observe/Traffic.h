//===- Traffic.h - how many bytes ranks sent --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// --traffic: what was counted (Comm::traffic), and beside it what must be sent:
// for every edge by the assignment, item by item; for collectives by the
// compiler's table and the plan (CollectiveTraffic.h). None of it shares code
// with what sends.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OBSERVE_TRAFFIC_H
#define DT_RUNTIME_OBSERVE_TRAFFIC_H

#include "runtime/step/Trainer.h"

namespace dt::rt {

/// Bytes that this rank must send in a step, [2 * edge + gradient], to others
/// than itself.
std::vector<uint64_t> expectedMessages(const ProgramInfo &program,
                                       const Placement &placement,
                                       const Batch &batch);

/// Sums over ranks and steps, from its construction on. File: {"steps": n,
/// "edges": [{"edge": "a.x -> b.y", "direction": "forward" | "gradient",
/// "bytes", "messages", "expected"}], "collectives": [{"axis", "name", "bytes",
/// "calls", "expected"}], "control": {"bytes", "calls"}}; axes: axisOf.
class TrafficReport {
public:
  /// An empty path: does nothing.
  TrafficReport(const Trainer &trainer, std::string path);
  void addStep(const Batch &batch);
  /// All ranks call it; throws CommonError.
  void write();

private:
  struct Sums;
  void writeFile(Sums &sums) const;

  const Trainer &trainer;
  std::string path;
  int64_t steps = 0;
  std::vector<uint64_t> expected;
  std::map<std::string, uint64_t> collectives;
  std::map<std::string, Traffic> before;
};

} // namespace dt::rt

#endif // DT_RUNTIME_OBSERVE_TRAFFIC_H
