//===- LayerWork.h - Layers as they will run, for the planner ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a layer costs is read off the functions that will run: cut for a degree
// of tensor parallelism, differentiated for a saved set, fused. Each layer is
// made a stage of its own for that, so that its functions are its own.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_LAYERWORK_H
#define PASSES_PLAN_LAYERWORK_H

#include "passes/plan/PlanModel.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir {
class OpPassManager;
}

namespace dt::plan {

/// Runs a pipeline on a copy of a program.
using Runner = llvm::function_ref<mlir::LogicalResult(mlir::OpPassManager &,
                                                      mlir::ModuleOp)>;

/// A copy of a program inside of `inside`, for pipelines to work on.
mlir::ModuleOp copyProgram(mlir::ModuleOp program, mlir::ModuleOp inside);

/// Runs a pipeline on a copy of which only sizes are asked: what is chosen is
/// verified when it is compiled itself. Several may run at a time.
mlir::LogicalResult runUnverified(mlir::OpPassManager &pm, mlir::ModuleOp copy);

/// While it lives remarks and warnings of copies go nowhere: they come when the
/// program itself gets there. Nor do errors, unless they are `told`.
class QuietCopies {
public:
  explicit QuietCopies(mlir::MLIRContext *context, bool told = false)
      : context(context), prints(context->shouldPrintOpOnDiagnostic()),
        handler(context, [told](mlir::Diagnostic &d) {
          return mlir::success(!told || d.getSeverity() !=
                                            mlir::DiagnosticSeverity::Error);
        }) {
    // To print the operation of every remark takes longer than some phases.
    context->printOpOnDiagnostic(false);
  }
  ~QuietCopies() { context->printOpOnDiagnostic(prints); }
  QuietCopies(const QuietCopies &) = delete;

private:
  mlir::MLIRContext *context;
  bool prints;
  mlir::ScopedDiagnosticHandler handler;
};

/// What describeProgram() says of a program as the phase modules leaves it,
/// with every layer as the phases from stages to optimize make it for TP
/// degrees 1, 2, 4, … up to `mostTP`, as many ranks that share out experts up
/// to `mostRanks`, and every saved set; with sequence
/// parallelism too, where layers follow one another. What a phase refuses
/// is left to be priced by rule: its error comes when the program itself gets
/// there. Layouts are described in parallel.
llvm::Expected<PlannedProgram>
describePartitioned(mlir::ModuleOp program, int64_t mostTP, int64_t mostRanks);

} // namespace dt::plan

#endif // PASSES_PLAN_LAYERWORK_H
