//===- PluginOptimizers.h - Optimizers of plugins ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_DIST_PLUGINOPTIMIZERS_H
#define DIALECTS_DIST_PLUGINOPTIMIZERS_H

#include "runtime/Optimizers.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace dt::dist {

/// From now on recipes, IR and emitted programs have that optimizer. `rule` is
/// its struct's name in dt::rt::optimizers, `header` the text that defines it;
/// the description's own texts live as long as the compiler.
void addOptimizer(const rt::OptimizerDescription &description,
                  llvm::StringRef rule, llvm::StringRef header);

/// Of a program with that optimizer: its runtime/PluginOptimizers.h; empty
/// where the runtime's own says enough.
std::string writePluginOptimizers(rt::OptimizerKind kind);

} // namespace dt::dist

#endif // DIALECTS_DIST_PLUGINOPTIMIZERS_H
