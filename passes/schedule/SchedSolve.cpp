//===- SchedSolve.cpp - Solutions for scheduling problems -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/schedule/Passes.h"
#include "passes/scheduler/core/Schedule.h"

using namespace mlir;

namespace dt::schedule {

#define GEN_PASS_DEF_SCHEDSOLVE
#include "passes/schedule/Passes.h.inc"

namespace {

struct SchedSolve : impl::SchedSolveBase<SchedSolve> {
  using SchedSolveBase::SchedSolveBase;

  void runOnOperation() override {
    if (objective != "wall" && objective != "span") {
      emitError(getOperation().getLoc())
          << "sched-solve: expected objective wall or span, not '" << objective
          << "'";
      return signalPassFailure();
    }
    scheduler::SolveOptions options;
    options.objective = objective == "span" ? scheduler::Objective::Span
                                            : scheduler::Objective::Wall;
    llvm::DenseSet<StringAttr> solved;
    for (auto solution : getOperation().getOps<sched::SolutionOp>())
      solved.insert(solution.getProblemAttr().getAttr());
    OpBuilder builder(&getContext());
    for (auto problem : llvm::make_early_inc_range(
             getOperation().getOps<sched::ProblemOp>())) {
      if (solved.contains(problem.getSymNameAttr()))
        continue;
      llvm::Expected<scheduler::Solution> solution =
          scheduler::solve(problem.getProblem(), schedule, options);
      if (!solution) {
        problem.emitOpError()
            << "has no solution: " << toString(solution.takeError());
        return signalPassFailure();
      }
      sched::buildSolution(builder, problem, *solution, schedule);
    }
  }
};

} // namespace

} // namespace dt::schedule
