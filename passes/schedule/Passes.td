//===- Passes.td - Passes of the schedule phase -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_PASSES
#define PASSES_SCHEDULE_PASSES

include "mlir/Pass/PassBase.td"

def SchedSolve : Pass<"sched-solve", "::mlir::ModuleOp"> {
  let summary = "Give every sched.problem a sched.solution";
  let description = [{
    Problems that have a solution keep it. The others get one by the schedule of that name (docs/schedules.md): tasks in the order of the schedule, messages in one order over all ranks, slots for residuals. The verifier
    of `sched.solution` then proves it again. A schedule that cannot be used for the problem is an error that says why.
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "name of the schedule">,
    Option<"objective", "objective", "std::string", "\"wall\"", "what schedules that search make short: wall or span">
  ];
  let dependentDialects = ["::dt::sched::SchedDialect"];
}

#endif // PASSES_SCHEDULE_PASSES
