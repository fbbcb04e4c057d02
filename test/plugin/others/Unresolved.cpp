//===- Unresolved.cpp - A plugin that calls what no tool has --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/plugin/Plugin.h"

namespace dt {
void isNowhere();
} // namespace dt

DIST_TRAIN_PLUGIN("Unresolved", [](dt::Plugin &) { dt::isNowhere(); })
