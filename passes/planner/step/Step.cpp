//===- Step.cpp - What a plan's step costs --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/StepBuilder.h"

#include "passes/scheduler/core/Merge.h"
#include "passes/scheduler/core/Schedule.h"
#include "runtime/reorder/Order.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace llvm;

namespace dt::planner {

char DoesNotFit::ID = 0;

void DoesNotFit::log(raw_ostream &os) const { os << text; }

void Reason::note(Error error) {
  handleAllErrors(
      std::move(error),
      [&](const DoesNotFit &fit) {
        if (fit.missing >= missing)
          return;
        missing = fit.missing;
        text = fit.text;
      },
      [&](const ErrorInfoBase &other) {
        if (text.empty())
          text = other.message();
      });
}

void Reason::note(const Reason &other) {
  if (other.missing < missing || text.empty())
    *this = other;
}

namespace {

/// The order of tasks alone, of a problem that has passed check(): that of
/// messages is for programs, not for times.
Expected<Solution> solve(const TaskGraph &graph, const std::string &name,
                         int64_t effort = 0) {
  scheduler::SolveOptions options;
  options.communicate = false;
  options.effort = effort;
  return scheduler::solve(graph, name, options);
}

/// Whether the plan's order of tasks does not depend on their times.
bool isStatic(const Plan &plan) {
  return plan.getTraits().order == scheduler::OrderOf::Shape;
}

/// Order of microbatches: the pipeline of the slowest replica of each stage.
Expected<std::vector<int32_t>> findOrder(const Problem &full, const Plan &plan,
                                         int64_t effort) {
  Problem small = full;
  int n = small.microbatches;
  std::map<std::vector<int>, int> rankOf; // shared ranks stay shared
  std::vector<std::vector<int64_t>> rows;
  for (scheduler::Stage &stage : small.stages) {
    int replicas = int(stage.replicas.size());
    auto slowest = [&](const scheduler::Table &table) {
      std::vector<int64_t> row(n, 0);
      for (int k = 0; k < n; ++k)
        for (int r = 0; r < replicas; ++r)
          row[k] = std::max(row[k], table.at(k, r, n, replicas));
      return row;
    };
    auto it = rankOf.try_emplace({stage.replicas[0][0]}, int(rankOf.size()));
    stage.replicas = {{it.first->second}};
    // Tables keep their shape, for schedules that look at the times.
    for (scheduler::Table *table :
         {&stage.forward, &stage.input, &stage.weight}) {
      rows.push_back(slowest(*table));
      *table = scheduler::Table(rows.back());
    }
    stage.activation = stage.weightActivation = scheduler::Table(0);
    stage.late.reset();
  }
  for (scheduler::Edge &edge : small.edges)
    edge.routes.clear();
  small.ranks = int(rankOf.size());
  small.memory.clear();
  if (Error error = small.check())
    return std::move(error);
  // Where the order of tasks is searched, 1F1B's stands for it.
  TaskGraph graph(small);
  auto solution = planner::solve(graph, isStatic(plan) ? plan.schedule
                                                       : std::string("1f1b"));
  if (!solution)
    return solution.takeError();
  auto timeline = scheduler::evaluate(graph, *solution);
  if (!timeline)
    return timeline.takeError();
  return reorder::reorder(
             makeOrderProblem(graph, *solution, *timeline, std::move(rows)),
             {effort})
      .order;
}

bool wantsOrder(const Plan &plan, const Model &model) {
  // Before a barrier of the whole batch all forwards run, whatever the order.
  // What comes together in a task would change with it.
  if (!model.contrast.towers.empty() || plan.hasSpans())
    return false;
  return plan.ordersMicrobatches() && plan.assign == Assign::Items &&
         plan.microbatches > 2;
}

/// The module and all others that have some of its devices.
std::string namesOf(const Model &model, const Plan &plan, size_t host) {
  std::vector<std::string> names = {"'" + model.modules[host].name + "'"};
  const UnitPlan &own = plan.units[host];
  for (size_t u = 0; u < plan.units.size(); ++u)
    if (u != host && plan.units[u].meets(own))
      names.push_back("'" + model.modules[u].name + "'");
  if (names.size() == 1)
    return "module " + names[0] + " does";
  return "modules " + join(ArrayRef(names).drop_back(), ", ") + " and " +
         names.back() + " on the same devices do";
}

/// Bytes that the fullest rank of a unit has too few.
double lackOf(const Costs &costs, const Plan &plan, const PlannedStep &result,
              size_t u) {
  return result.memory[u].total() -
         costs.cluster.getLeastMemory(plan.units[u].firstRank,
                                      plan.units[u].getRanks());
}

Error checkMemory(const Costs &costs, const Plan &plan,
                  const PlannedStep &result) {
  for (size_t u = 0; u < plan.units.size(); ++u) {
    double missing = lackOf(costs, plan, result, u);
    if (missing <= 0)
      continue;
    const PlannedStep::Memory &m = result.memory[u];
    std::string text = formatv(
        "{0} not fit: {1:f0} bytes a device, {2:f0} more than there are "
        "(weights and optimizer {3:f0}, activations {4:f0}, workspace {5:f0}, "
        "message buffers {6:f0}, checkpoint {7:f0}{8})",
        namesOf(costs.model, plan, u), m.total(), missing, m.state.total(),
        m.activations, m.workspace, m.buffers + m.messages, m.snapshot,
        m.beyond > 0 ? formatv(", measured beyond these {0:f0}", m.beyond).str()
                     : "");
    return make_error<DoesNotFit>(int(u), missing, m.waiting, std::move(text));
  }
  return Error::success();
}

double peakOf(const Costs &costs) {
  double peak = 0;
  const std::string &precision =
      costs.model.modules[costs.model.pace].precision;
  for (size_t i = 0; i < costs.cluster.nodes.size(); ++i)
    peak += costs.cluster.getDevice(int(i)).peak(precision) *
            double(costs.cluster.getNumDevices(int(i)));
  return peak;
}

/// Busy shares by unit, bubbles, and where device time goes.
void account(const Costs &costs, const Plan &plan, const StepBuilder &builder,
             const TaskGraph &graph, PlannedStep &result) {
  Prediction &p = result.predicted;
  const Simulation &sim = result.simulation;
  const std::vector<double> &devices = result.devices;
  double step = double(std::max<Time>(1, sim.step)), busy = 0, all = 0;
  p.busy.assign(plan.units.size(), 0);
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    busy += devices[rank] * double(sim.busy[rank]);
    all += devices[rank];
    for (const Task &task : result.solution.ranks[rank]) {
      int node = graph.getNode(task);
      int unit = result.problem.stages[task.stage].unit;
      if (is_contained(result.unitsOfRank[rank], unit))
        p.busy[unit] +=
            devices[rank] * double(sim.end[node] - sim.start[node]) / step;
    }
  }
  for (size_t u = 0; u < plan.units.size(); ++u)
    p.busy[u] /= double(plan.units[u].getRanks());
  p.wallBubble = sim.tasks > 0 ? 1 - busy / (double(sim.tasks) * all) : 0;
  p.spanBubble = sim.getSpanBubble();
  double total = double(costs.cluster.getNumDevices()) * step * 1e-9;
  const StepBuilder::Work &work = builder.getWork();
  // The folded problem counts the slowest part for all of a class.
  double scale = work.all > 0 ? busy * 1e-9 / work.all : 0;
  p.losses.reduce = scale * work.reduce / total;
  p.losses.again = scale * work.again / total;
  p.losses.kernels =
      busy * 1e-9 / total - p.losses.reduce - p.losses.again - p.bound / p.step;
  p.losses.waiting = (double(sim.tasks) * all - busy) * 1e-9 / total;
  p.losses.tail = (step - double(sim.tasks)) * all * 1e-9 / total;
  p.losses.idle = 1 - all / double(costs.cluster.getNumDevices());
}

void predict(const Costs &costs, const Plan &plan,
             const std::vector<Sample> &batch, const StepBuilder &builder,
             const TaskGraph &graph, PlannedStep &result) {
  Prediction &p = result.predicted;
  p = plan.predicted;
  p.step = double(result.simulation.step) * 1e-9;
  p.bound = costs.workBound(batch);
  double flops = 0;
  for (size_t m = 0; m < costs.model.modules.size(); ++m)
    flops += costs.model.getFlops(
        int(m), momentsOf(batch, costs.model.modules[m].item));
  p.mfu = p.step > 0 ? flops / (p.step * peakOf(costs)) : 0;
  p.costs.clear();
  for (size_t m = 0; m < costs.model.modules.size(); ++m) {
    StringRef source = costs.getSource(int(m));
    if (p.costs.empty())
      p.costs = source.str();
    else if (p.costs != source)
      p.costs = "profile and model";
  }
  p.memory.clear();
  for (const PlannedStep::Memory &memory : result.memory)
    p.memory.push_back(memory.total());
  account(costs, plan, builder, graph, result);
}

/// The folded problem, microbatches in the best order that was found.
Error buildFolded(const Plan &plan, const Model &model,
                  const StepOptions &options, Parts &parts, StepBuilder &folded,
                  Problem &problem) {
  problem = folded.build(parts);
  if (Error error = problem.check())
    return error;
  if (!wantsOrder(plan, model))
    return Error::success();
  auto found = findOrder(problem, plan, options.orderEffort);
  if (!found)
    return found.takeError();
  parts.permute(*found);
  problem = folded.build(parts);
  return Error::success();
}

/// The order of tasks, found on the folded problem.
Expected<Solution> solveFolded(const Plan &plan, const StepOptions &options,
                               const StepBuilder &folded,
                               const Problem &problem,
                               const std::vector<double> &less) {
  if (isStatic(plan))
    return planner::solve(TaskGraph(problem), plan.schedule,
                          options.scheduleEffort);
  Problem limited = problem;
  folded.limitMemory(limited, less);
  if (!plan.compiled)
    return planner::solve(TaskGraph(limited), plan.schedule,
                          options.scheduleEffort);
  // As dist-schedule finds it.
  return scheduler::solveMerged(limited, plan.schedule, options.scheduleEffort);
}

/// The tasks of ranks in their order, in words.
void recordOrder(const PlannedStep &result, Prediction &predicted) {
  predicted.order.clear();
  for (size_t rank = 0; rank < result.solution.ranks.size(); ++rank) {
    raw_string_ostream text(predicted.order[result.planRank[rank]]);
    ListSeparator separator;
    for (const Task &task : result.solution.ranks[rank])
      text << separator << scheduler::getLetter(task.kind) << ' '
           << result.problem.stages[task.stage].name << ' ' << task.microbatch;
  }
}

/// Why no order of tasks fits the memory: what the least demanding one lacks.
Error explainNoOrder(const Costs &costs, const Plan &plan,
                     const StepBuilder &folded, Problem problem, Error why) {
  problem.memory.clear();
  auto solution =
      expectedToOptional(planner::solve(TaskGraph(problem), "1f1b"));
  if (!solution)
    return why;
  PlannedStep result;
  result.problem = std::move(problem);
  result.solution = std::move(*solution);
  folded.describe(TaskGraph(result.problem), result);
  Error missing = checkMemory(costs, plan, result);
  if (!missing)
    return why;
  consumeError(std::move(why));
  return missing;
}

/// Whether a searched order may fit with less memory for units that are over
/// theirs: some replica holds more than what stood for it in the search.
bool lowerLimits(const Costs &costs, const Plan &plan,
                 const PlannedStep &result, std::vector<double> &less) {
  bool any = false;
  for (size_t u = 0; u < plan.units.size() && !isStatic(plan); ++u) {
    double over = lackOf(costs, plan, result, u);
    if (over <= 0 || over >= result.memory[u].activations)
      continue;
    less[u] += 1.1 * over;
    any = true;
  }
  return any;
}

} // namespace

Expected<PlannedStep> simulateStep(const Costs &costs, const Plan &plan,
                                   const std::vector<Sample> &batch,
                                   const StepOptions &options) {
  if (Error error = checkPlan(plan, costs.model, costs.cluster))
    return std::move(error);
  if (batch.empty())
    return createStringError("a step needs at least one sample");
  Parts parts = makeParts(costs.model, plan, batch, costs.items, options.parts);
  if (!parts.tooLarge.empty())
    return createStringError(parts.tooLarge);
  StepBuilder folded(costs, plan, true);
  std::optional<StepBuilder> full;
  Problem problem;
  if (Error error =
          buildFolded(plan, costs.model, options, parts, folded, problem))
    return std::move(error);
  bool cores = costs.cluster.nodes.front().cores > 0;
  bool fold =
      options.fold || (!cores && !options.slowdowns &&
                       costs.cluster.levels.empty() && folded.isUniform(parts));
  Problem whole;
  if (!fold) {
    full.emplace(costs, plan, false, options.slowdowns);
    whole = full->build(parts);
    if (Error error = whole.check())
      return std::move(error);
  }
  StepBuilder &builder = fold ? folded : *full;
  std::optional<Problem> nominal;
  if (plan.compiled)
    folded.makeNominal(nominal.emplace(problem));
  std::vector<double> less(plan.units.size(), 0);
  PlannedStep result;
  std::optional<TaskGraph> graph;
  for (int tries = 0;; ++tries) {
    auto solution =
        solveFolded(plan, options, folded, nominal ? *nominal : problem, less);
    if (!solution)
      return isStatic(plan) ? solution.takeError()
                            : explainNoOrder(costs, plan, folded, problem,
                                             solution.takeError());
    result = PlannedStep();
    result.folded = fold;
    result.solution =
        fold ? std::move(*solution) : full->expand(whole, folded, *solution);
    result.problem = std::move(fold ? problem : whole);
    graph.emplace(result.problem);
    builder.describe(*graph, result);
    if (tries == 3 || !lowerLimits(costs, plan, result, less))
      break;
    (fold ? problem : whole) = std::move(result.problem);
  }
  if (options.requireMemory)
    if (Error error = checkMemory(costs, plan, result))
      return std::move(error);
  auto simulation =
      simulate(*graph, result.solution,
               builder.getEngineOptions(result.problem, options.links));
  if (!simulation)
    return simulation.takeError();
  result.simulation = std::move(*simulation);
  builder.addWaiting(*graph, result);
  if (options.requireMemory)
    if (Error error = checkMemory(costs, plan, result))
      return std::move(error);
  if (options.timeOnly)
    result.predicted.step = double(result.simulation.step) * 1e-9;
  else
    predict(costs, plan, batch, builder, *graph, result);
  if (!nominal)
    return std::move(result);
  if (!isStatic(plan))
    folded.limitMemory(*nominal, less);
  folded.recordTimes(*nominal, result.predicted);
  recordOrder(result, result.predicted);
  return std::move(result);
}

Expected<PlannedStep> simulateFitting(const Costs &costs, Plan &plan,
                                      const std::vector<Sample> &batch,
                                      const StepOptions &options) {
  auto setAhead = [&](std::optional<int> ahead) {
    for (UnitPlan &unit : plan.units)
      if (!costs.model.modules[unit.module].hasBackward())
        unit.runAhead = ahead;
  };
  setAhead(std::nullopt);
  Expected<PlannedStep> best = simulateStep(costs, plan, batch, options);
  bool waits = false;
  if (best)
    return best;
  Error error = handleErrors(best.takeError(),
                             [&](std::unique_ptr<DoesNotFit> fit) -> Error {
                               waits = fit->missing <= fit->waiting;
                               return Error(std::move(fit));
                             });
  std::optional<int> largest;
  for (int below = 0, above = waits ? int(plan.microbatches) : 0;
       below < above;) {
    int ahead = largest ? (below + above) / 2 : 0;
    setAhead(ahead);
    auto step = simulateStep(costs, plan, batch, options);
    if (!step) {
      consumeError(step.takeError());
      above = ahead;
      continue;
    }
    best = std::move(step);
    largest = ahead;
    below = ahead + 1;
  }
  setAhead(largest);
  if (!largest)
    return std::move(error);
  consumeError(std::move(error));
  return best;
}

std::vector<std::pair<Time, int64_t>>
getMemoryOverTime(const PlannedStep &result, int rank) {
  TaskGraph graph(result.problem);
  scheduler::Timeline timeline;
  timeline.start = result.simulation.start;
  timeline.end = result.simulation.end;
  PlannedStep::Memory always = result.held[rank];
  always.activations = 0;
  auto base = int64_t(always.total());
  std::vector<std::pair<Time, int64_t>> curve = {{0, base}};
  for (auto [time, bytes] :
       scheduler::getMemoryCurve(graph, result.solution, timeline, rank)) {
    if (curve.back().first == time)
      curve.pop_back();
    curve.emplace_back(time, base + bytes);
  }
  return curve;
}

} // namespace dt::planner
