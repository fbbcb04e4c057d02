//===- Machine.h - This machine as a cluster --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One rank a core, as emitted programs run on a CPU. What the system tells is
// asked for (cores, memory, instruction sets); rates are typical ones and
// nothing is measured, so that the same machine always gives the same plan.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_HARDWARE_MACHINE_H
#define PASSES_PLANNER_HARDWARE_MACHINE_H

#include "passes/planner/hardware/Cluster.h"

namespace dt::planner {

struct Machine {
  int cores = 1;               ///< that this process may run on
  double memory = 0;           ///< bytes of all cores together
  std::string instructions;    ///< "AVX-512", "AVX2", …
  double flopsPerCycle = 8;    ///< of a core in f32
  std::string bf16 = "as f32"; ///< what multiplies bf16
  double bf16PerF32 = 1;       ///< rate over that of f32
};

/// Cores by affinity; the machine's memory, or the control group's limit if
/// that is less.
Machine getThisMachine();

/// `typical`: a cluster of such cores, whose other figures are taken over.
/// `devices`: that the machine is to be, equal parts of its cores (0: as many
/// as there are cores; a part may be less than one). Cluster::assumed says
/// where the figures come from.
Cluster describeMachine(const Machine &machine, Cluster typical,
                        int devices = 0);

} // namespace dt::planner

#endif // PASSES_PLANNER_HARDWARE_MACHINE_H
