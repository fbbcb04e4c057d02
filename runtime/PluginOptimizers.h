//===- PluginOptimizers.h - optimizers of plugins ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// None. In the directory of a program whose optimizer is a plugin's the
// compiler writes this file: what the plugins have, behind those of
// Optimizers.h.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_PLUGINOPTIMIZERS_H
#define DT_RUNTIME_PLUGINOPTIMIZERS_H

#define DT_PLUGIN_OPTIMIZERS(OPTIMIZER)

#endif // DT_RUNTIME_PLUGINOPTIMIZERS_H
