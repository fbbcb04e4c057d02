//===- Pipeline.h - The import phase ----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_PIPELINE_H
#define PASSES_IMPORT_PIPELINE_H

namespace mlir {
class OpPassManager;
}

namespace dt {

/// From the importer's output to raised nn IR. Anchors on the builtin module;
/// function passes reach the functions inside dist.module.
void buildImportPipeline(mlir::OpPassManager &pm);

void registerImportPasses();

} // namespace dt

#endif // PASSES_IMPORT_PIPELINE_H
