//===- Timeline.cpp - The predicted schedule as a picture -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/MeasuredTrace.h"
#include "tools/dt-opt/Output.h"

#include "dialects/dist/DistOps.h"
#include "dialects/sched/SchedOps.h"
#include "models/frontend/json/JsonReader.h"
#include "passes/picture/Lanes.h"
#include "passes/picture/Units.h"
#include "passes/planner/step/Engine.h"
#include "passes/scheduler/core/Draw.h"
#include "passes/scheduler/messages/Communicate.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/FormatVariadic.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <optional>

using namespace mlir;

namespace {

using Json = nlohmann::json;
using dt::scheduler::Problem;
using dt::scheduler::Solution;
using dt::scheduler::TaskGraph;
using dt::scheduler::Timeline;

/// Times of a run's tasks (train --report) in the place of predicted ones.
class MeasuredTimes {
public:
  static llvm::Expected<MeasuredTimes> read(Json json, StringRef file);
  /// Fills `options` and the problem's tables.
  llvm::Error apply(Problem &problem,
                    dt::planner::EngineOptions &options) const;
  double getStep() const { return step; }
  int getCores() const { return cores; }

private:
  llvm::Error fail(const llvm::Twine &what) const {
    return llvm::createStringError(file + ": " + what +
                                   " (expected what train --report writes)");
  }
  llvm::Error addTask(const Json &task, Problem &problem) const;

  std::string file;
  Json tasks, tails;
  double step = 0;
  int cores = 0;
};

int64_t nanoseconds(double seconds) {
  return int64_t(std::llround(std::clamp(seconds, 0.0, 1e6) * 1e9));
}

/// Of ranks that do a task together the slowest counts.
void raise(dt::scheduler::Table &table, size_t at, double seconds) {
  table.values[at] = std::max(table.values[at], nanoseconds(seconds));
}

llvm::Expected<Json> readObject(StringRef file) {
  auto parsed = dt::models::readFile(file, dt::models::parseJson);
  if (!parsed)
    return parsed.takeError();
  Json json = *parsed;
  if (!json.is_object())
    return llvm::createStringError(file + ": not a JSON object (expected what "
                                          "train --report or --trace writes)");
  return json;
}

llvm::Expected<MeasuredTimes> MeasuredTimes::read(Json json, StringRef file) {
  MeasuredTimes result;
  result.file = file.str();
  for (const char *key : {"tasks", "tails"})
    if (!json.contains(key) || !json[key].is_array())
      return result.fail(llvm::Twine("'") + key + "' is not a list");
  if (!json.contains("step_seconds") || !json["step_seconds"].is_number() ||
      !json.contains("cores") || !json["cores"].is_number_integer())
    return result.fail("'step_seconds' or 'cores' is missing");
  result.tasks = json["tasks"];
  result.tails = json["tails"];
  result.step = json["step_seconds"];
  result.cores = json["cores"];
  return result;
}

llvm::Error MeasuredTimes::addTask(const Json &task, Problem &problem) const {
  bool whole = task.is_object();
  for (const char *key :
       {"rank", "microbatch", "seconds", "collectives", "around"})
    whole = whole && task.contains(key) && task[key].is_number() &&
            task[key].get<double>() >= 0;
  for (const char *key : {"stage", "task"})
    whole = whole && task.contains(key) && task[key].is_string();
  if (!whole)
    return fail("a task of another form");
  std::string name = task["stage"], letter = task["task"];
  auto stage = llvm::find_if(problem.stages,
                             [&](auto &known) { return known.name == name; });
  size_t k = task["microbatch"];
  int rank = task["rank"];
  if (stage == problem.stages.end() || k >= size_t(problem.microbatches))
    return fail("the program has no task of stage '" + name + "', microbatch " +
                llvm::Twine(k));
  auto replica = llvm::find_if(stage->replicas, [&](auto &ranks) {
    return llvm::is_contained(ranks, rank);
  });
  if (replica == stage->replicas.end())
    return fail("rank " + llvm::Twine(rank) + " has no stage '" + name + "'");
  size_t at = k * stage->replicas.size() + (replica - stage->replicas.begin());
  double seconds = task["seconds"].get<double>() +
                   task["collectives"].get<double>() +
                   task["around"].get<double>();
  // A backward that is not split takes the sum of both.
  raise(letter == "F"   ? stage->forward
        : letter == "W" ? stage->weight
                        : stage->input,
        at, seconds);
  return llvm::Error::success();
}

llvm::Error MeasuredTimes::apply(Problem &problem,
                                 dt::planner::EngineOptions &options) const {
  for (dt::scheduler::Stage &stage : problem.stages) {
    size_t count = size_t(problem.microbatches) * stage.replicas.size();
    for (auto *table : {&stage.forward, &stage.input, &stage.weight})
      table->values.assign(count, 0);
  }
  // What messages take of ranks is in the tasks around them.
  for (dt::scheduler::Edge &edge : problem.edges) {
    edge.latency = 0;
    for (dt::scheduler::Route &route : edge.routes)
      route.latency = 0;
  }
  for (const Json &task : tasks)
    if (llvm::Error error = addTask(task, problem))
      return error;
  for (dt::scheduler::Stage &stage : problem.stages)
    if (stage.batchSync) // there and back in one
      for (size_t i = 0; i < stage.forward.values.size(); ++i)
        stage.forward.values[i] += stage.input.values[i];
  if (tails.size() != size_t(problem.ranks))
    return fail("the program has " + llvm::Twine(problem.ranks) + " ranks");
  for (const Json &tail : tails) {
    if (!tail.is_number())
      return fail("'tails' has something else than numbers");
    options.optimizer.push_back(nanoseconds(tail));
  }
  // The norm is everybody's: updates begin when all have come so far.
  dt::planner::GradientReduction norm;
  for (int rank = 0; rank < problem.ranks; ++rank)
    norm.ranks.push_back(rank);
  options.reductions.push_back(norm);
  if (cores > 0)
    options.cores.push_back({norm.ranks, cores});
  return llvm::Error::success();
}

/// A schedule's times, and what they rest on.
struct Expectation {
  Timeline timeline;
  /// Of measured times: the simulator's step, with its end.
  std::optional<dt::planner::Simulation> step;
  std::string told; ///< empty: predicted times
};

/// By the planner's simulator at measured times.
llvm::Expected<Expectation>
simulate(const TaskGraph &graph, const Solution &solution,
         const MeasuredTimes &times,
         const dt::planner::EngineOptions &options) {
  auto step = dt::planner::simulate(graph, solution, options);
  if (!step)
    return step.takeError();
  auto timeline = dt::scheduler::evaluate(graph, solution);
  if (!timeline)
    return timeline.takeError();
  timeline->start = step->start;
  timeline->end = step->end;
  timeline->busy = step->busy;
  timeline->span = step->span;
  timeline->wall = step->tasks;
  double seconds = double(step->step) * 1e-9;
  std::string told = llvm::formatv(
      "simulated {0:f2} ms from measured tasks, measured {1:f2} ms",
      1e3 * seconds, 1e3 * times.getStep());
  return Expectation{std::move(*timeline), std::move(*step), told};
}

/// At the times of the problem.
llvm::Expected<Expectation> atPredictedTimes(const TaskGraph &graph,
                                             const Solution &solution) {
  auto timeline = dt::scheduler::evaluate(graph, solution);
  if (!timeline) // the op has been verified, so there is one
    return timeline.takeError();
  return Expectation{std::move(*timeline), std::nullopt, ""};
}

bool isPicture(StringRef file) {
  return file.ends_with(".svg") || file.ends_with(".html");
}

/// A picture or a page, by the file's ending.
void write(const dt::picture::TimelineChart &chart, StringRef file,
           llvm::raw_ostream &os) {
  if (file.ends_with(".html"))
    dt::picture::drawTimelinePage(os, chart);
  else
    dt::picture::drawTimeline(os, chart, /*standalone=*/true);
}

/// The optimizer's time of every rank behind the tasks.
void addEnd(dt::picture::TimelineChart &chart,
            const dt::planner::Simulation &step) {
  for (dt::picture::Lane &lane : chart.lanes) {
    size_t rank = size_t(lane.ranks.front());
    if (step.done[rank] > step.reduced[rank])
      lane.bars.push_back({dt::picture::BarKind::Optimizer, 0,
                           double(step.reduced[rank]), double(step.done[rank]),
                           -1, "optimizer"});
  }
  chart.end = std::max(chart.end, double(step.step));
}

dt::picture::TimelineChart makePicture(const TaskGraph &graph,
                                       const Solution &solution,
                                       const Expectation &expected,
                                       const std::string &title,
                                       bool nanoseconds) {
  auto chart = dt::picture::makeChart(
      graph, solution, expected.timeline,
      expected.step ? title + " at measured times" : title);
  chart.nanoseconds = nanoseconds;
  std::string what = expected.step ? expected.told
                     : nanoseconds ? "at predicted times, not measured ones"
                                   : "in the problem's own units of time";
  chart.notes = {"Tasks end after " +
                     dt::picture::printTimeOf(chart, chart.end) + ", " + what +
                     ".",
                 dt::picture::describeBubble(expected.timeline)};
  if (expected.step)
    addEnd(chart, *expected.step);
  return chart;
}

/// What a run has done, in the place of what is expected of it.
llvm::Error drawTrace(const Json &json, const Problem &problem,
                      const dt::OutputOptions &options, llvm::raw_ostream &os) {
  if (!isPicture(options.output))
    return llvm::createStringError(
        "--times: a trace is drawn as a picture only (-o X.svg, X.html)");
  auto chart = dt::readTrace(json, problem, options.times);
  if (!chart)
    return chart.takeError();
  write(*chart, options.output, os);
  return llvm::Error::success();
}

llvm::Error draw(dt::sched::SolutionOp op, dt::sched::ProblemOp problemOp,
                 const dt::OutputOptions &options, llvm::raw_ostream &os) {
  Problem problem = problemOp.getProblem();
  dt::planner::EngineOptions engine;
  std::optional<MeasuredTimes> times;
  if (!options.times.empty()) {
    auto json = readObject(options.times);
    if (!json)
      return json.takeError();
    if (json->contains("traceEvents"))
      return drawTrace(*json, problem, options, os);
    auto read = MeasuredTimes::read(std::move(*json), options.times);
    if (!read)
      return read.takeError();
    if (llvm::Error error = read->apply(problem, engine))
      return error;
    times = std::move(*read);
  }
  TaskGraph graph(problem);
  Solution solution = dt::scheduler::getTasks(op.getPrograms(problemOp));
  std::string title =
      (problemOp.getSymName() + ": " + op.getSchedule().value_or("given"))
          .str();
  auto expected = times ? simulate(graph, solution, *times, engine)
                        : atPredictedTimes(graph, solution);
  if (!expected)
    return expected.takeError();
  // Problems that compilers make are in nanoseconds.
  auto program = problemOp->getParentOfType<mlir::ModuleOp>();
  bool nanoseconds = times || dt::dist::getOnly<dt::dist::PlanOp>(program);
  if (!isPicture(options.output)) {
    auto print = [&](dt::scheduler::Time time) {
      return nanoseconds ? dt::picture::printTime(double(time) * 1e-9)
                         : std::to_string(time);
    };
    os << title << (times ? ": " + expected->told : "") << "\n";
    dt::scheduler::drawText(os, graph, solution, expected->timeline, print);
    return llvm::Error::success();
  }
  write(makePicture(graph, solution, *expected, title, nanoseconds),
        options.output, os);
  return llvm::Error::success();
}

} // namespace

LogicalResult dt::emitTimeline(mlir::ModuleOp program,
                               const OutputOptions &options) {
  auto fail = [](const llvm::Twine &message) {
    llvm::errs() << "error: --emit=timeline: " << message << "\n";
    return failure();
  };
  auto solutions = program.getOps<sched::SolutionOp>();
  if (solutions.empty())
    return fail("there is no schedule to draw; a recipe needs a plan "
                "(--plan)");
  StringRef file = options.output;
  if (isPicture(file) && std::next(solutions.begin()) != solutions.end())
    return fail("a picture shows one sched.solution, the program has several");
  // Before the file is opened: one that is there outlives an error.
  std::string text;
  llvm::raw_string_ostream os(text);
  for (sched::SolutionOp solution : solutions) {
    auto problem = SymbolTable::lookupNearestSymbolFrom<sched::ProblemOp>(
        solution, solution.getProblemAttr());
    if (llvm::Error error = draw(solution, problem, options, os))
      return fail(toString(std::move(error)));
  }
  return writeText(file, [&](llvm::raw_ostream &out) { out << text; });
}
