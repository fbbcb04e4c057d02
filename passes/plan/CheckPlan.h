//===- CheckPlan.h - Whether a plan can work for a program ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_CHECKPLAN_H
#define PASSES_PLAN_CHECKPLAN_H

#include "dialects/dist/DistOps.h"
#include "passes/plan/PlanFile.h"

namespace dt::plan {

/// Fills what a plan left open (ranks in order, pace, micro) and returns the
/// first contradiction with the program, as "file: key: what". What needs costs
/// or cut points is told by later passes. `isOrdered`: that its schedule finds
/// an order of tasks has been seen.
llvm::Error completePlan(PlanFile &plan, mlir::ModuleOp program,
                         bool isOrdered = false);

/// Completes a plan and writes it as the attributes that passes obey. Error: a
/// contradiction, or there is a plan already.
llvm::Error applyPlan(PlanFile plan, mlir::ModuleOp program,
                      bool isOrdered = false);

/// The most items of `kind` in a part of a unit's module, in which joined
/// replicas are one: what the plan says,
/// else an equal share of what a microbatch may hold of the module's own kind,
/// and what these samples may hold of the others.
int64_t getRowsMax(const UnitEntry &unit, dist::ModuleOp module,
                   llvm::StringRef kind);
/// The same of what a dim of the module adds up: for a measure as many items,
/// each of the largest size, or what the recipe says of a part.
int64_t getRowsMax(const UnitEntry &unit, dist::ModuleOp module, nn::DimOp dim);

} // namespace dt::plan

#endif // PASSES_PLAN_CHECKPLAN_H
