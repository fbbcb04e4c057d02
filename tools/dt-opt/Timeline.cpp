//===- Timeline.cpp - The predicted schedule as a picture -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Output.h"

#include "dialects/sched/SchedOps.h"
#include "passes/schedule/Communicate.h"
#include "passes/schedule/Draw.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

static void draw(dt::sched::SolutionOp op, dt::sched::ProblemOp problemOp,
                 StringRef file, llvm::raw_ostream &os) {
  dt::schedule::Problem problem = problemOp.getProblem();
  dt::schedule::Graph graph(problem);
  dt::schedule::Solution solution =
      dt::schedule::getTasks(op.getPrograms(problemOp));
  // The op has been verified, so this succeeds.
  dt::schedule::Timeline timeline =
      cantFail(dt::schedule::evaluate(graph, solution));
  std::string title =
      (problemOp.getSymName() + ": " + op.getSchedule().value_or("given"))
          .str();
  if (file.ends_with(".html"))
    dt::schedule::drawHtml(os, graph, solution, timeline, title);
  else if (file.ends_with(".svg"))
    dt::schedule::drawSvg(os, graph, solution, timeline, title);
  else {
    os << title << "\n";
    dt::schedule::drawText(os, graph, solution, timeline);
  }
}

LogicalResult dt::emitTimeline(mlir::ModuleOp program,
                               const OutputOptions &options) {
  auto fail = [](const llvm::Twine &message) {
    llvm::errs() << "error: --emit=timeline: " << message << "\n";
    return failure();
  };
  auto solutions = program.getOps<sched::SolutionOp>();
  if (solutions.empty())
    return fail("the program has no sched.problem; a recipe needs a plan "
                "(--plan)");
  StringRef file = options.output;
  bool one = file.ends_with(".svg") || file.ends_with(".html");
  if (one && std::next(solutions.begin()) != solutions.end())
    return fail("a picture shows one sched.solution, the program has several");
  std::string message;
  auto output = openOutputFile(file, &message);
  if (!output)
    return fail(message);
  for (sched::SolutionOp solution : solutions) {
    auto problem = SymbolTable::lookupNearestSymbolFrom<sched::ProblemOp>(
        solution, solution.getProblemAttr());
    draw(solution, problem, file, output->os());
  }
  output->keep();
  return success();
}
