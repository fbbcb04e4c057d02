//===- CheckPlan.cpp - Whether a plan can work for a program ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/CheckPlan.h"

#include "models/frontend/json/JsonReader.h"
#include "passes/plan/PlanModel.h"
#include "passes/scheduler/core/Schedule.h"
#include "passes/stages/StageCuts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using llvm::Error;

namespace dt::plan {

namespace {

int64_t getMicro(mlir::ModuleOp program) {
  auto batch = dist::getOnly<dist::BatchOp>(program);
  return batch ? int64_t(batch.getMicro()) : 1;
}

class Checker {
public:
  Checker(PlanFile &plan, mlir::ModuleOp program)
      : plan(plan), program(program) {}

  Error run() {
    for (auto check :
         {&Checker::matchUnits, &Checker::assignRanks, &Checker::checkBatch,
          &Checker::checkRows, &Checker::checkEdges})
      if (Error error = (this->*check)())
        return error;
    return Error::success();
  }
  /// After run().
  Error trySchedule();

private:
  Error matchUnits();
  Error choosePace();
  Error assignRanks();
  Error checkRanks(const UnitEntry &unit);
  Error cutBatch();
  Error cutParts(dist::BatchOp batch);
  Error checkBatch();
  Error checkParts(const UnitEntry &unit);
  Error checkSpan(const UnitEntry &unit, int64_t microbatches);
  Error checkRows();
  Error checkMeasuredRow(const UnitEntry &unit, StringRef quantity,
                         int64_t rows);
  Error checkRow(const UnitEntry &unit, StringRef kind, int64_t rows);
  Error checkEdges();
  Error checkEdge(dist::EdgeOp edge);
  scheduler::Problem makeProblem();

  dist::ModuleOp moduleOf(const UnitEntry &unit) {
    return program.lookupSymbol<dist::ModuleOp>(unit.name);
  }
  bool isIntoHead(dist::EdgeOp edge);
  const UnitEntry &unitOf(StringRef module) {
    return *llvm::find_if(
        plan.units, [&](const UnitEntry &unit) { return unit.name == module; });
  }
  std::vector<StringRef> getUnitNames() {
    std::vector<StringRef> names;
    for (const UnitEntry &unit : plan.units)
      names.push_back(unit.name);
    return names;
  }

  PlanFile &plan;
  mlir::ModuleOp program;
};

/// Into a module over the whole batch, which is no unit of the plan.
bool Checker::isIntoHead(dist::EdgeOp edge) {
  return program.lookupSymbol<dist::ModuleOp>(edge.getTarget()).getWholeBatch();
}

Error Checker::matchUnits() {
  std::vector<StringRef> modules, units = getUnitNames();
  // What runs over the whole batch runs where its inputs are made.
  for (auto module : program.getOps<dist::ModuleOp>())
    if (!module.getWholeBatch())
      modules.push_back(module.getSymName());
  for (StringRef unit : units) {
    if (llvm::is_contained(modules, unit))
      continue;
    if (program.lookupSymbol<dist::ModuleOp>(unit))
      return plan.error("units." + unit,
                        "this module compares the whole batch: it is on the "
                        "ranks of what it takes, and no plan names it");
    return plan.error("units." + unit,
                      "there is no module of that name" +
                          models::didYouMean(unit, modules) +
                          " (modules: " + llvm::join(modules, ", ") + ")");
  }
  for (StringRef module : modules)
    if (!llvm::is_contained(units, module))
      return plan.error("units", "the module '" + module + "' is missing");
  return choosePace();
}

Error Checker::choosePace() {
  if (!plan.pace.empty()) {
    std::vector<StringRef> units = getUnitNames();
    if (llvm::is_contained(units, plan.pace))
      return Error::success();
    return plan.error("pace", "there is no unit '" + plan.pace + "'" +
                                  models::didYouMean(plan.pace, units));
  }
  int best = -1;
  for (auto module : program.getOps<dist::ModuleOp>())
    if (!module.getWholeBatch() && getPaceRank(module) > best) {
      best = getPaceRank(module);
      plan.pace = module.getSymName().str();
    }
  return Error::success();
}

/// "tp * dp * pp = 2 * 1 * 2", with cp where there is one.
static std::string describeSizes(const UnitEntry &unit) {
  std::string names = "tp", sizes = std::to_string(unit.tp);
  auto add = [&](StringRef name, int64_t size) {
    names += (" * " + name).str();
    sizes += " * " + std::to_string(size);
  };
  if (unit.cp > 1)
    add("cp", unit.cp);
  add("dp", unit.dp);
  add("pp", unit.pp);
  return names + " = " + sizes;
}

Error Checker::checkRanks(const UnitEntry &unit) {
  std::string key = unit.at("ranks");
  if (int64_t(unit.ranks.size()) != unit.getNumRanks())
    return plan.error(key, "names " + Twine(unit.ranks.size()) + " ranks; " +
                               describeSizes(unit) + " = " +
                               Twine(unit.getNumRanks()));
  std::vector<int64_t> sorted = unit.ranks;
  llvm::sort(sorted);
  for (auto [i, rank] : llvm::enumerate(sorted)) {
    if (rank >= plan.ranks)
      return plan.error(key, "rank " + Twine(rank) + " is not one of " +
                                 Twine(plan.ranks) + " (from 0)");
    if (i && rank == sorted[i - 1])
      return plan.error(key, "rank " + Twine(rank) + " stands twice");
  }
  return Error::success();
}

Error Checker::assignRanks() {
  int64_t next = 0;
  for (UnitEntry &unit : plan.units) {
    if (unit.ranks.empty()) {
      if (unit.tp > plan.ranks || unit.cp > plan.ranks ||
          unit.dp > plan.ranks || unit.pp > plan.ranks ||
          next + unit.getNumRanks() > plan.ranks)
        return plan.error("units." + unit.name,
                          describeSizes(unit) + " ranks from rank " +
                              Twine(next) + " on; the plan has " +
                              Twine(plan.ranks));
      for (int64_t i = 0; i < unit.getNumRanks(); ++i)
        unit.ranks.push_back(next + i);
    } else if (Error error = checkRanks(unit)) {
      return error;
    }
    next = std::max(next, *llvm::max_element(unit.ranks) + 1);
  }
  llvm::SmallVector<bool> used(plan.ranks, false);
  for (const UnitEntry &unit : plan.units)
    for (int64_t rank : unit.ranks)
      used[rank] = true;
  auto *idle = llvm::find(used, false);
  if (idle == used.end())
    return Error::success();
  return plan.error("ranks", "no unit runs on rank " +
                                 Twine(idle - used.begin()) + " of " +
                                 Twine(plan.ranks));
}

static bool addsUpTokens(dist::ModuleOp module) {
  return llvm::any_of(module.getOps<nn::DimOp>(), [](nn::DimOp dim) {
    return dim.getQuantity() == "sample.tokens";
  });
}

/// Of a step of parts every microbatch has as many, one a replica at most.
Error Checker::cutParts(dist::BatchOp batch) {
  int64_t parts = *batch.getParts(), samples = batch.getGlobal() / parts,
          n = plan.microbatches.value_or(1);
  const UnitEntry *least = &unitOf(plan.pace);
  for (const UnitEntry &unit : plan.units)
    if (addsUpTokens(moduleOf(unit)) && unit.dp < least->dp)
      least = &unit;
  while (!plan.microbatches && batch.getOpenMicro() &&
         (parts % n || parts / n > least->dp))
    ++n;
  if (n != 1 && !batch.getOpenMicro())
    return plan.error("microbatches",
                      "the recipe's batch makes 1, not " + Twine(n));
  if (parts % n)
    return plan.error("microbatches", Twine(parts) +
                                          " parts of a step are not as many in "
                                          "each of " +
                                          Twine(n));
  if (parts / n > least->dp)
    return plan.error(least->at("dp"),
                      "a microbatch has " + Twine(parts / n) +
                          " parts of the step, each for another replica; "
                          "expected at least as many, or more microbatches");
  plan.micro = parts / n * samples;
  plan.microbatches = n;
  return Error::success();
}

/// Of a recipe that leaves it open the plan says what a microbatch has.
Error Checker::cutBatch() {
  auto batch = dist::getOnly<dist::BatchOp>(program);
  if (batch && batch.getParts())
    return cutParts(batch);
  int64_t global = batch ? batch.getGlobal() : 1;
  plan.micro = getMicro(program);
  bool says = batch && batch.getOpenMicro() && plan.microbatches;
  if (says)
    plan.micro = llvm::divideCeilSigned(global, *plan.microbatches);
  int64_t n = llvm::divideCeilSigned(global, plan.micro),
          asked = plan.microbatches.value_or(n);
  plan.microbatches = n;
  if (asked == n)
    return Error::success();
  return plan.error(
      "microbatches",
      says ? Twine(global) + " samples make " + Twine(n) + " microbatches of " +
                 Twine(plan.micro) + ", not " + Twine(asked)
           : "the recipe's batch makes " + Twine(n) + ", not " + Twine(asked));
}

Error Checker::checkBatch() {
  if (Error error = cutBatch())
    return error;
  for (const UnitEntry &unit : plan.units) {
    if (Error error = checkSpan(unit, *plan.microbatches))
      return error;
    if (Error error = checkParts(unit))
      return error;
  }
  return Error::success();
}

/// Whether a task of the unit can serve so many microbatches.
Error Checker::checkSpan(const UnitEntry &unit, int64_t microbatches) {
  std::string key = unit.at("span");
  if (unit.span > microbatches)
    return plan.error(
        key, "a step has " + Twine(microbatches) +
                 (microbatches == 1 ? " microbatch" : " microbatches") +
                 ", fewer than " + Twine(unit.span));
  for (auto edge : program.getOps<dist::EdgeOp>()) {
    if (edge.getSource() != unit.name)
      continue;
    if (isIntoHead(edge) && unit.span > 1)
      return plan.error(key, "'" + edge.getTarget() +
                                 "' runs over the whole batch and takes single "
                                 "microbatches; expected 1, not " +
                                 Twine(unit.span));
    if (!isIntoHead(edge) && unit.span % unitOf(edge.getTarget()).span != 0)
      return plan.error(key, "feeds '" + edge.getTarget() +
                                 "', a task of which serves " +
                                 Twine(unitOf(edge.getTarget()).span) +
                                 " microbatches; expected a multiple, not " +
                                 Twine(unit.span));
  }
  return Error::success();
}

/// Whether a microbatch can be cut into the unit's parts.
Error Checker::checkParts(const UnitEntry &unit) {
  if (unit.getNumParts() == 1)
    return Error::success();
  auto item = moduleOf(unit).getItem();
  if (!item)
    return plan.error(unit.at(unit.dp > 1 ? "dp" : "sub"),
                      "the module works on no kind of item that could be "
                      "cut (no first axis of its outputs or inputs is a dim "
                      "that counts items: dims says which one does); expected "
                      "1, not " +
                          Twine(unit.dp > 1 ? unit.dp : unit.sub));
  StringRef cut = *item; // rows of several kinds: samples
  for (auto dim : moduleOf(unit).getOps<nn::DimOp>())
    if (dim.getItem().value_or(cut) != cut)
      cut = dist::kSample;
  int64_t most = plan.micro * dist::getItemMax(program, cut).value_or(1);
  auto shared = [&](int64_t items, StringRef what) {
    return (Twine(items) + " " + cut + "s that a " + what +
            " may hold: some would always be empty; expected at most ")
        .str();
  };
  if (unit.dp > most)
    return plan.error(unit.at("dp"), Twine(unit.dp) + " replicas share the " +
                                         shared(most, "microbatch") +
                                         Twine(most));
  most *= unit.span;
  if (unit.getNumParts() > most)
    return plan.error(unit.at("sub"),
                      "dp * sub = " + Twine(unit.dp) + " * " + Twine(unit.sub) +
                          " parts share the " +
                          shared(most, unit.span > 1 ? "task" : "microbatch") +
                          Twine(most / unit.dp));
  // Pieces of items have no samples, which other kinds would be counted by.
  if (unit.sub > 1 && *item != dist::kSample)
    for (auto dim : moduleOf(unit).getOps<nn::DimOp>())
      if (dim.getItem().value_or(*item) != *item)
        return plan.error(unit.at("sub"),
                          "the module works on " + *item + "s, but its dim '" +
                              dim.getSymName() + "' counts " + *dim.getItem() +
                              "s, which pieces do not have; expected 1, not " +
                              Twine(unit.sub));
  return Error::success();
}

/// A part holds any one item.
Error Checker::checkMeasuredRow(const UnitEntry &unit, StringRef quantity,
                                int64_t rows) {
  std::string key = unit.at("rows_max") + "." + quantity.str();
  for (auto dim : moduleOf(unit).getOps<nn::DimOp>()) {
    if (dim.getQuantity() != quantity)
      continue;
    auto largest = int64_t(*dim.getLargest());
    if (rows >= largest)
      return Error::success();
    return plan.error(key, "one item may have " + Twine(largest) +
                               "; expected at least that, not " + Twine(rows));
  }
  return plan.error(key, "the module adds up no such measure");
}

Error Checker::checkRow(const UnitEntry &unit, StringRef kind, int64_t rows) {
  if (kind.contains('.'))
    return checkMeasuredRow(unit, kind, rows);
  std::string key = unit.at("rows_max") + "." + kind.str();
  auto most = dist::getItemMax(program, kind);
  std::vector<StringRef> kinds;
  for (auto dim : moduleOf(unit).getOps<nn::DimOp>())
    if (dim.getItem() && !llvm::is_contained(kinds, *dim.getItem()))
      kinds.push_back(*dim.getItem());
  if (!most || !llvm::is_contained(kinds, kind))
    return plan.error(key, "the module counts no such items (kinds: " +
                               llvm::join(kinds, ", ") + ")");
  // Parts have the samples of their task, also where they are of other items.
  bool own =
      kind == dist::kSample || moduleOf(unit).getItem().value_or("") == kind;
  int64_t parts = unit.getNumParts();
  int64_t room = own ? rows * parts : rows;
  int64_t needed = kind == dist::kSample ? plan.micro * unit.span : *most;
  if (room < needed)
    return plan.error(
        key,
        kind == dist::kSample
            ? (unit.span > 1 ? "a task has " : "a microbatch has ") +
                  Twine(needed) + " samples; " + Twine(parts) + " parts of " +
                  Twine(rows) + " do not hold them"
            : "a sample may hold " + Twine(needed) + "; expected at least " +
                  Twine(own ? llvm::divideCeilSigned(needed, parts) : needed) +
                  ", not " + Twine(rows));
  return Error::success();
}

Error Checker::checkRows() {
  for (const UnitEntry &unit : plan.units)
    for (auto &[kind, rows] : unit.rowsMax)
      if (Error error = checkRow(unit, kind, rows))
        return error;
  return Error::success();
}

Error Checker::checkEdge(dist::EdgeOp edge) {
  if (isIntoHead(edge))
    return Error::success();
  const UnitEntry &from = unitOf(edge.getSource()),
                  &to = unitOf(edge.getTarget());
  auto module = moduleOf(to);
  func::FuncOp forward = module.getForward();
  bool joins = from.span != to.span;
  if ((from.getNumParts() == 1 && to.getNumParts() == 1 && !joins) || !forward)
    return Error::success();
  auto argument = dist::ModuleOp::findArgument(forward, edge.getInput());
  if (!argument)
    return Error::success();
  if (stages::countsItems(module, forward.getArgumentTypes()[*argument]))
    return Error::success();
  if (joins)
    return plan.error(
        from.at("span"),
        "the edge into " + to.name + "." + edge.getInput() +
            " does not count items on its first axis, so those "
            "of several microbatches cannot be joined; expected " +
            Twine(to.span) + ", not " + Twine(from.span));
  const UnitEntry &cut = from.getNumParts() > 1 ? from : to;
  bool replicas = cut.dp > 1;
  return plan.error(cut.at(replicas ? "dp" : "sub"),
                    "the edge into " + to.name + "." + edge.getInput() +
                        " does not count items on its first axis, so it "
                        "cannot be cut; expected 1, not " +
                        Twine(replicas ? cut.dp : cut.sub));
}

Error Checker::checkEdges() {
  std::vector<std::string> names;
  auto nearest = [&](StringRef name) {
    return models::didYouMean(
        name, std::vector<StringRef>(names.begin(), names.end()));
  };
  for (auto edge : program.getOps<dist::EdgeOp>()) {
    names.push_back((edge.getTarget() + "." + edge.getInput()).str());
    if (Error error = checkEdge(edge))
      return error;
  }
  for (auto &[name, entry] : plan.edges)
    if (!llvm::is_contained(names, name))
      return plan.error("edges." + name,
                        "there is no such connection" + nearest(name) +
                            " (inputs: " + llvm::join(names, ", ") + ")");
  return Error::success();
}

/// A problem of the plan's shape, every stage alike: whether the schedule takes
/// it depends on the shape only.
scheduler::Problem Checker::makeProblem() {
  scheduler::Problem problem;
  problem.ranks = int(plan.ranks);
  // More change nothing but the work.
  problem.microbatches = int(std::min<int64_t>(*plan.microbatches, 64));
  llvm::StringMap<std::pair<int, int>> ends; // first and last stage
  bool goesBack = scheduler::traitsOf(plan.schedule).goesBack;
  for (const UnitEntry &unit : plan.units) {
    problem.units.push_back({unit.name, unit.runAhead});
    int first = int(problem.stages.size());
    for (int64_t s = 0; s < unit.getNumStages(); ++s) {
      scheduler::Stage stage;
      stage.name = unit.name + "." + std::to_string(s);
      stage.unit = int(problem.units.size()) - 1;
      stage.forward = stage.input = stage.weight = stage.activation = 1;
      int64_t position = scheduler::positionOf(s, unit.pp, goesBack);
      for (int64_t d = 0; d < unit.dp; ++d) {
        auto begin =
            unit.ranks.begin() + (position * unit.dp + d) * unit.getGroup();
        stage.replicas.emplace_back(begin, begin + unit.getGroup());
      }
      problem.stages.push_back(stage);
      if (s)
        problem.edges.push_back(
            {first + int(s) - 1, first + int(s), 0, true, {}, 0});
    }
    ends[unit.name] = {first, int(problem.stages.size()) - 1};
  }
  for (auto edge : program.getOps<dist::EdgeOp>())
    if (!isIntoHead(edge))
      problem.edges.push_back({ends[edge.getSource()].second,
                               ends[edge.getTarget()].first,
                               0,
                               true,
                               {},
                               0});
  return problem;
}

Error Checker::trySchedule() {
  // Heads run where their inputs are made, which the cut into stages says.
  if (scheduler::traitsOf(plan.schedule).needsBatchSync)
    return Error::success();
  scheduler::Problem problem = makeProblem();
  if (Error error = problem.check())
    return plan.error("units", toString(std::move(error)));
  scheduler::SolveOptions options;
  options.effort = 1;
  auto solution = scheduler::solve(problem, plan.schedule, options);
  if (solution)
    return Error::success();
  return plan.error("pipelines.schedule", toString(solution.takeError()));
}

} // namespace

Error completePlan(PlanFile &plan, mlir::ModuleOp program, bool isOrdered) {
  Checker checker(plan, program);
  if (Error error = checker.run())
    return error;
  return isOrdered ? Error::success() : checker.trySchedule();
}

} // namespace dt::plan
