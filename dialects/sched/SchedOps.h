//===- SchedOps.h - The sched dialect ---------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Scheduling problems and solutions as IR; what they mean is defined by the
// library in passes/schedule, which knows no IR.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_SCHED_SCHEDOPS_H
#define DIALECTS_SCHED_SCHEDOPS_H

#include "dialects/dist/RankList.h"
#include "passes/scheduler/core/Problem.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"

namespace dt::sched {
class ProblemOp;
}

#include "dialects/sched/SchedDialect.h.inc"
#include "dialects/sched/SchedEnums.h.inc"
#define GET_OP_CLASSES
#include "dialects/sched/SchedOps.h.inc"

namespace dt::sched {

/// Writes a solution with its programs behind `problem`.
SolutionOp buildSolution(mlir::OpBuilder &builder, ProblemOp problem,
                         const scheduler::Solution &solution,
                         llvm::StringRef schedule);

} // namespace dt::sched

#endif // DIALECTS_SCHED_SCHEDOPS_H
