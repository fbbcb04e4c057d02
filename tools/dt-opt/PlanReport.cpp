//===- PlanReport.cpp - Who runs what, and what it takes --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Read after scheduling, where shapes are those of one rank and operators still
// have costs.
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Report.h"

#include "dialects/dist/DistOps.h"
#include "dialects/sched/SchedOps.h"
#include "passes/schedule/StageWork.h"
#include "passes/scheduler/core/Footprint.h"
#include "passes/scheduler/messages/Communicate.h"
#include "passes/stages/BoundSizes.h"

using namespace mlir;

namespace dt {

namespace {

/// Bytes of a module's output at the bounds of its dims.
double getOutputBytes(dist::ModuleOp module, StringRef output,
                      stages::BoundSizes &costs) {
  if (func::FuncOp function = dist::getFunctions(module).forward)
    if (auto i = dist::ModuleOp::findResult(function, output))
      return costs.bytesOf(function.getResultTypes()[*i]);
  return 0;
}

void addModule(dist::ModuleOp module, ModuleReport &entry) {
  auto program = module->getParentOfType<mlir::ModuleOp>();
  dist::Placement placement(module);
  entry.unit = placement.unit.str();
  entry.stage = placement.stage;
  entry.tp = module.getTp();
  entry.cp = module.getCp();
  entry.context = module.getContextKeys();
  entry.joined = module.getJoined();
  entry.dp = placement.dp * entry.joined;
  entry.sub = placement.sub;
  entry.span = module.getSpan();
  entry.zero = placement.zero;
  entry.ranks.assign(placement.ranks.begin(), placement.ranks.end());
  entry.runAhead = module.getRunAhead();
  entry.overlap = module.getOverlap();
  entry.ep = module.getEp();
  entry.sequenceParallel = module.getSequenceParallel();
  planner::StateBytes state = schedule::getStateBytes(module);
  entry.stateBytes[0] = stages::toInteger(state.parameters);
  entry.stateBytes[1] = stages::toInteger(state.gradients);
  entry.stateBytes[2] = stages::toInteger(state.moments);
  entry.times = schedule::getTimes(module);
  if (entry.times)
    entry.timesFrom = module.getTimesAttr().getSource().str();
  stages::BoundSizes costs(module);
  entry.slotBytes = stages::toInteger(schedule::getSlotBytes(module).all());
  entry.activationBytes = entry.slotBytes;
  double sent = 0;
  for (auto edge : program.getOps<dist::EdgeOp>()) {
    if (edge.getSource() != module.getSymName())
      continue;
    sent +=
        double(placement.sub) * getOutputBytes(module, edge.getOutput(), costs);
    dist::Placement to(program.lookupSymbol<dist::ModuleOp>(edge.getTarget()));
    auto message = edge.getMessage();
    if (message && entry.times && to.unit == placement.unit &&
        to.stage == placement.stage + 1)
      entry.times->message = *message;
  }
  entry.sentBytes = stages::toInteger(sent);
}

/// What stands at once of each stage, by what the compiled functions keep.
void addActivations(mlir::ModuleOp program, const ScheduleReport &steps,
                    ProgramReport &report) {
  scheduler::Problem problem = steps.problem;
  for (scheduler::Stage &stage : problem.stages) {
    auto module = program.lookupSymbol<dist::ModuleOp>(stage.name);
    schedule::SlotBytes bytes = schedule::getSlotBytes(module);
    stage.activation = stages::toInteger(bytes.early + bytes.whole);
    stage.weightActivation = stages::toInteger(bytes.whole + bytes.late);
    stage.late = stages::toInteger(bytes.late);
  }
  scheduler::TaskGraph graph(problem);
  scheduler::Footprint footprint(graph);
  for (auto [rank, tasks] : llvm::enumerate(steps.solution.ranks))
    for (auto [stage, most] : llvm::zip_equal(
             problem.stages,
             scheduler::getFootprints(graph, footprint, int(rank), tasks))) {
      int64_t &bytes = report.getModule(stage.name).activationBytes;
      bytes = std::max(bytes, most);
    }
}

void addSchedule(mlir::ModuleOp program, ProgramReport &report) {
  auto solution = dist::getOnly<sched::SolutionOp>(program);
  auto problemOp = dist::getOnly<sched::ProblemOp>(program);
  if (!solution || !problemOp)
    return;
  for (auto run : solution.getOps<sched::RankOp>())
    for (auto task : run.getOps<sched::RunOp>()) {
      ModuleReport &entry = report.getModule(task.getStage());
      entry.slots = std::max<int64_t>(entry.slots,
                                      int64_t(task.getSlot().value_or(0)) + 1);
    }
  auto steps = std::make_shared<ScheduleReport>();
  steps->problem = problemOp.getProblem();
  steps->solution = scheduler::getTasks(solution.getPrograms(problemOp));
  addActivations(program, *steps, report);
  scheduler::TaskGraph graph(steps->problem);
  auto timeline = scheduler::evaluate(graph, steps->solution);
  if (!timeline) // verified, so there is one
    return llvm::consumeError(timeline.takeError());
  report.plan->wall = timeline->wall;
  report.plan->bubble = timeline->getWallBubble();
  report.plan->steps = std::move(steps);
}

} // namespace

void addPlan(mlir::ModuleOp program, ProgramReport &report) {
  auto plan = dist::getOnly<dist::PlanOp>(program);
  if (!plan)
    return;
  report.plan = PlanReport();
  report.plan->ranks = plan.getRanks();
  report.plan->bucketBytes = plan.getBucket();
  report.plan->depth = plan.getDepth();
  report.plan->narrowSums = plan.getNarrowSums();
  report.plan->schedule = plan.getSchedule().str();
  report.plan->pace = plan.getPace().str();
  report.plan->reorder = plan.getReorder().str();
  if (auto memory = plan.getMemory())
    report.plan->memory.assign(memory->begin(), memory->end());
  for (auto module : program.getOps<dist::ModuleOp>())
    addModule(module, report.getModule(module.getSymName()));
  for (auto edge : program.getOps<dist::EdgeOp>()) {
    auto from = program.lookupSymbol<dist::ModuleOp>(edge.getSource()),
         to = program.lookupSymbol<dist::ModuleOp>(edge.getTarget());
    auto message = edge.getMessage();
    StringRef unit = dist::Placement(to).unit;
    if (message && unit != dist::Placement(from).unit && !to.getWholeBatch())
      report.plan->messages[(unit + "." + edge.getInput()).str()] = *message;
  }
  addSchedule(program, report);
}

} // namespace dt
