//===- Example.h - What the plugin has --------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef EXAMPLE_H
#define EXAMPLE_H

#include "tools/plugin/Plugin.h"

namespace example {

// One function a file; Plugin.cpp calls them.
void addCountCost(dt::Plugin &plugin);
void addCluster(dt::Plugin &plugin);
void addEqualReplicas(dt::Plugin &plugin);
void addFlush(dt::Plugin &plugin);
void addScan(dt::Plugin &plugin);
void addSignum(dt::Plugin &plugin);
void addSmoothL1(dt::Plugin &plugin);

} // namespace example

#endif // EXAMPLE_H
