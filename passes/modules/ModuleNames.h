//===- ModuleNames.h - What parts of a graph are called ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_MODULENAMES_H
#define PASSES_MODULES_MODULENAMES_H

#include "dialects/dist/DistOps.h"

namespace dt::modules {

/// The exporter's scope ("vision_tower") under which most of a module's
/// parameters stand and hardly any of the others'
/// ("model.vision_tower.layers.0.weight"); empty if names tell nothing.
std::string getScopeName(dist::ModuleOp module,
                         llvm::ArrayRef<dist::ModuleOp> others);

/// Makes `module` known by `name` everywhere in the program.
void renameModule(dist::ModuleOp module, llvm::StringRef name);

} // namespace dt::modules

#endif // PASSES_MODULES_MODULENAMES_H
