//===- Waves.h - Zero-bubble orders microbatch by microbatch ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Sequences of forwards and input gradients for any DAG of stages with one
// stage a rank, after the heuristic of Qi et al., "Zero Bubble Pipeline
// Parallelism", ICLR 2024, section 3.1: a wave of forwards goes through the
// stages, then a wave of gradients comes back, and so on.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_SEARCH_WAVES_H
#define PASSES_SCHEDULER_SEARCH_WAVES_H

#include "passes/scheduler/search/Lanes.h"

namespace dt::scheduler {

struct WaveRules {
  FillRules fill;
  /// Forwards before the first gradient: as many as start before it could, or
  /// as many as end before it.
  bool delayFirst = true;
  /// A place more than one microbatch ahead leaves out a forward that a
  /// gradient would have to wait for.
  bool skipForwards = false;
};

class Waves {
public:
  explicit Waves(const Lanes &lanes);

  /// Whether no rank has more than one stage.
  static bool applies(const Lanes &lanes);
  /// Nothing if memory does not hold what the waves keep.
  std::optional<LaneResult> run(const WaveRules &rules) const;

private:
  friend class WaveRun;
  struct Neighbour {
    int place;
    Time latency;
    bool gradient;
  };
  const Lanes &lanes;
  std::vector<std::vector<Neighbour>> before, after; ///< by place
};

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_SEARCH_WAVES_H
