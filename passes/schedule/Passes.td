//===- Passes.td - Passes of the schedule phase -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_PASSES
#define PASSES_SCHEDULE_PASSES

include "passes/Pipeline.td"

include "mlir/Pass/PassBase.td"

// The step of a program with a plan, and its solution.
def SchedulePipeline : Pipeline<[
  "dist-choose-brokers",
  "dist-schedule{planned=true}"
]>;

def SchedSolve : Pass<"sched-solve", "::mlir::ModuleOp"> {
  let summary = "Give every sched.problem a sched.solution";
  let description = [{
    Problems that have a solution keep it. The others get one by the named schedule (docs/schedules.md): tasks in the order of the schedule, messages in one order over all ranks, slots for residuals. The verifier of
    `sched.solution` then proves it again. A schedule that cannot be used for the problem is an error that says why.
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "name of the schedule">,
    Option<"objective", "objective", "std::string", "\"wall\"", "what schedules that search minimise: wall or span (docs/schedules.md#time)">
  ];
  let dependentDialects = ["::dt::sched::SchedDialect"];
}

def ChooseBrokers : Pass<"dist-choose-brokers", "::mlir::ModuleOp"> {
  let summary = "Choose the routing of every edge's rows to the replicas that work on their items";
  let description = [{
    Writes `broker` on each `dist.edge`. Schedules and tables follow it.

    | broker | if | rows |
    | --- | --- | --- |
    | "copy" | both ends run on the same ranks with equal replicas | are not sent |
    | "direct" | both ends divide the same items alike | go from replica i to replica i |
    | "items" | neither holds | go from any replica to any other; the manifest says which (docs/parallel.md) |
    | "all" | the target works on the whole batch | all go to each of its ranks |
  }];
}

def DistSchedule : Pass<"dist-schedule", "::mlir::ModuleOp"> {
  let summary = "Make the step's scheduling problem and solve it";
  let description = [{
    Makes one `sched.problem @step` with a stage for each module (in the order of the program) and an edge for each `dist.edge` (in their order). Times and kept bytes are those of `times`, else those that the planner's cost
    model gives for the module's functions at the bounds. Makes a `sched.solution` by the schedule that `dist.plan` names, the same for ranks that do the same. Without a plan: one rank, schedule `accumulate`.
  }];
  let options = [
    Option<"planned", "planned", "bool", "false", "do nothing without dist.plan">
  ];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::dt::sched::SchedDialect"];
}

#endif // PASSES_SCHEDULE_PASSES
