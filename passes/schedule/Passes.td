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
    Problems that have a solution keep it. The others get one by the schedule of that name (docs/schedules.md): tasks in the order of the schedule, messages in one order over all ranks, slots for residuals. The verifier
    of `sched.solution` then proves it again. A schedule that cannot be used for the problem is an error that says why.
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "name of the schedule">,
    Option<"objective", "objective", "std::string", "\"wall\"", "what schedules that search make short: wall or span">
  ];
  let dependentDialects = ["::dt::sched::SchedDialect"];
}

def ChooseBrokers : Pass<"dist-choose-brokers", "::mlir::ModuleOp"> {
  let summary = "Choose how rows of every edge find the replica that works on their items";
  let description = [{
    Writes `dist.broker` on each `dist.edge`: "copy" (both ends run on the same ranks with equal replicas: nothing is sent), "direct" (replica i to replica i: both share out the same items alike), "items" (any replica to any:
    the manifest says which rows go, docs/parallel.md) or "all" (into a module over the whole batch: every row to each of its ranks). Schedules and tables obey it.
  }];
}

def DistSchedule : Pass<"dist-schedule", "::mlir::ModuleOp"> {
  let summary = "Make the step's scheduling problem and solve it";
  let description = [{
    One `sched.problem @step` with a stage for each module (in the order of the program) and an edge for each `dist.edge` (in their order), times and kept bytes as `dist.times` says, else as the planner's cost model has them of the module's functions at the bounds of parts; and a
    `sched.solution` by the schedule that `dist.plan` names, the same for ranks that do the same. Without a plan: one rank, schedule `accumulate`.
  }];
  let options = [
    Option<"planned", "planned", "bool", "false", "do nothing without dist.plan">
  ];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::dt::sched::SchedDialect"];
}

#endif // PASSES_SCHEDULE_PASSES
