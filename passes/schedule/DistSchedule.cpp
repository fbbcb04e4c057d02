//===- DistSchedule.cpp - A program's step as a scheduling problem --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Comes when functions have the shapes of one rank and ops still have costs.
// Times are the plan's; what it does not say the planner's code prices, on the
// functions themselves.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/describe/Plan.h"
#include "passes/planner/describe/Shipped.h"
#include "passes/schedule/Passes.h"
#include "passes/schedule/Peaks.h"
#include "passes/schedule/StageWork.h"
#include "passes/scheduler/core/Evaluate.h"
#include "passes/scheduler/core/Merge.h"
#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/messages/Communicate.h"
#include "passes/stages/BoundSizes.h"
#include "passes/stages/PlanCluster.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/MapVector.h"

#include <list>

using namespace mlir;

namespace dt::schedule {

using namespace stages;

#define GEN_PASS_DEF_DISTSCHEDULE
#include "passes/schedule/Passes.h.inc"

namespace {

/// What goes back is an argument of the sender's backward.
bool hasGradient(dist::EdgeOp edge, const dist::Functions &sender) {
  auto name = StringAttr::get(edge.getContext(),
                              edge.getTarget() + "." + edge.getInput());
  for (func::FuncOp function : sender.getBackwards())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto gradient =
              function.getArgAttrOfType<nn::GradientAttr>(i, nn::kGradientAttr);
          gradient && gradient.getEdge() == name)
        return true;
  return false;
}

class ProblemBuilder {
public:
  ProblemBuilder(mlir::ModuleOp program, dist::PlanOp plan)
      : program(program), plan(plan), builder(program.getContext()) {}

  FailureOr<sched::ProblemOp> build();

private:
  LogicalResult openCluster();
  LogicalResult addUnits();
  LogicalResult addStage(dist::ModuleOp module);
  FailureOr<planner::StageTimes> findTimes(dist::ModuleOp module);
  FailureOr<planner::Times> price(dist::ModuleOp module,
                                  PriceOptions options = {});
  LogicalResult setItemCosts(dist::ModuleOp module, double item);
  FailureOr<int64_t> getMessageTime(dist::EdgeOp edge);
  LogicalResult addEdge(dist::EdgeOp edge);
  LogicalResult boundMemory();
  Attribute getReplicas(dist::ModuleOp module);
  ArrayAttr getRoutes(dist::EdgeOp edge, dist::ModuleOp from, dist::ModuleOp to,
                      int64_t latency);
  DenseI64ArrayAttr list(int64_t value) {
    return builder.getDenseI64ArrayAttr({value});
  }
  FlatSymbolRefAttr symbol(StringRef name) {
    return FlatSymbolRefAttr::get(program.getContext(), name);
  }
  dist::ModuleOp moduleOf(StringRef name) {
    return program.lookupSymbol<dist::ModuleOp>(name);
  }

  mlir::ModuleOp program;
  dist::PlanOp plan;
  OpBuilder builder;
  sched::ProblemOp problem;
  llvm::StringMap<std::string> units;      ///< their symbols in the problem
  std::optional<planner::Cluster> cluster; ///< once something is priced
};

int64_t nanoseconds(double seconds) { return toInteger(1e9 * seconds); }

LogicalResult ProblemBuilder::openCluster() {
  if (cluster)
    return success();
  auto opened = stages::openPlanCluster(program);
  if (succeeded(opened))
    cluster = std::move(*opened);
  return success(succeeded(opened));
}

FailureOr<planner::Times> ProblemBuilder::price(dist::ModuleOp module,
                                                PriceOptions options) {
  if (failed(openCluster()) || failed(stages::checkRate(*cluster, module)))
    return failure();
  return priceStage(module, *cluster, options);
}

LogicalResult ProblemBuilder::addUnits() {
  for (auto module : program.getOps<dist::ModuleOp>()) {
    StringRef unit = dist::Placement(module).unit;
    if (units.contains(unit))
      continue;
    // Stages have the names of modules, and a module may be a whole unit.
    std::string name = unit.str();
    while (moduleOf(name))
      name += ".unit";
    units[unit] = name;
    int64_t span = module.getSpan();
    sched::UnitOp::create(builder, module.getLoc(), builder.getStringAttr(name),
                          module.getRunAheadAttr(),
                          span > 1 ? builder.getI64IntegerAttr(span)
                                   : IntegerAttr());
  }
  return success();
}

/// A replica is a group of ranks; of a whole-batch module all its ranks
/// are one.
Attribute ProblemBuilder::getReplicas(dist::ModuleOp module) {
  dist::Placement placement(module);
  int64_t size =
      module.getWholeBatch() ? placement.ranks.size() : placement.group;
  SmallVector<Attribute> replicas;
  for (size_t i = 0; i + size <= placement.ranks.size(); i += size)
    replicas.push_back(
        builder.getI64ArrayAttr(ArrayRef(placement.ranks).slice(i, size)));
  return builder.getArrayAttr(replicas);
}

/// What forming microbatches balances: ns of one item more in a part; of items
/// that have a measure which the module adds up, of each 1 of it, and of its
/// square. A module by sample has items of other kinds as well, and items may
/// have several measures; what it would not do without these is theirs, the
/// rest is the main dim's. `item`: ns of the largest of its own.
LogicalResult ProblemBuilder::setItemCosts(dist::ModuleOp module, double item) {
  StringRef own = module.getItem().value_or(dist::kSample);
  nn::DimOp mine = stages::getMainDim(module, own);
  // Items of a kind count once, and so does each measure of its own.
  llvm::MapVector<StringRef, nn::DimOp> others;
  std::list<std::string> quantities;
  for (auto dim : module.getOps<nn::DimOp>()) {
    if (dim.getItem() && *dim.getItem() != own && own == dist::kSample)
      if (nn::DimOp main = stages::getMainDim(module, *dim.getItem()))
        others.try_emplace(*dim.getItem(), main);
    if (dim.getItem() == own && dim.getMeasure() &&
        dim.getMax().value_or(0) > 0 && dim.getQuantity() != mine.getQuantity())
      others.try_emplace(quantities.emplace_back(dim.getQuantity()), dim);
  }
  // Whole units of 1/256 ns, which is what the runtime counts in.
  auto set = [&](nn::DimOp dim, double all) {
    double one = std::max(0.0, all) / double(*dim.getBound());
    dim.setCost(APFloat(std::round(256 * one) / 256));
  };
  double all = mine ? item * stages::countItems(mine) : 0, left = all;
  if (all <= 0) {
    if (mine)
      set(mine, 0);
    return success();
  }
  if (others.empty() && !mine.getMeasure()) {
    set(mine, all);
    return success();
  }
  auto with = price(module);
  auto shareWithout = [&](PriceOptions options) -> FailureOr<double> {
    auto without = price(module, options);
    if (failed(with) || failed(without))
      return failure();
    return 1 - without->total() / with->total();
  };
  for (auto [what, dim] : others) {
    auto share = shareWithout({what, true});
    if (failed(share))
      return failure();
    set(dim, all * *share);
    left -= all * *share;
  }
  if (mine.getMeasure()) {
    auto share = shareWithout({"", false});
    if (failed(share))
      return failure();
    auto largest = double(std::max<int64_t>(1, *mine.getLargest()));
    double squares = std::max(0.0, *share);
    mine.setSquareCost(APFloat(item * squares / (largest * largest)));
    left -= all * squares;
  }
  set(mine, left);
  return success();
}

/// As the plan says; else of the functions at the bounds of a part, and what
/// their slot takes.
FailureOr<planner::StageTimes>
ProblemBuilder::findTimes(dist::ModuleOp module) {
  if (auto planned = schedule::getTimes(module))
    return *planned;
  auto priced = price(module);
  if (failed(priced))
    return failure();
  planner::StageTimes times;
  // A task works on all pieces of a replica's share.
  double pieces = double(dist::Placement(module).sub);
  times.forward = nanoseconds(priced->forward * pieces);
  times.input = nanoseconds(priced->input * pieces);
  times.weight = nanoseconds(priced->weight * pieces);
  SlotBytes bytes = getSlotBytes(module);
  times.keeps = toInteger(bytes.early + bytes.whole);
  times.waits = toInteger(bytes.whole + bytes.late);
  times.late = toInteger(bytes.late);
  if (nn::DimOp dim =
          stages::getMainDim(module, module.getItem().value_or(dist::kSample)))
    times.item =
        nanoseconds(priced->total() / std::max(1.0, stages::countItems(dim)));
  // The same for every stage: a module knows which it is.
  setTimes(module,
           SmallVector<planner::StageTimes>(
               size_t(dist::Placement(module).stage) + 1, times),
           "model");
  return times;
}

LogicalResult ProblemBuilder::addStage(dist::ModuleOp module) {
  dist::Functions tasks = dist::getFunctions(module);
  if (!tasks.forward)
    return module.emitOpError(
        "has neither a dist.forward of its own functions nor @forward");
  auto found = findTimes(module);
  if (failed(found) || failed(setItemCosts(module, double(found->item))))
    return failure();
  planner::StageTimes times = *found;
  bool sync = module.getWholeBatch(), trains = false;
  module.walk([&](nn::AccumulateOp) { trains = true; });
  bool hasBackward = !tasks.getBackwards().empty() && !sync;
  // In schedules of halves a backward in one piece is done with I.
  if (plan && scheduler::traitsOf(plan.getSchedule()).splitsBackward &&
      tasks.backward) {
    times.input += times.weight;
    trains = false;
  }
  auto unit = [&](bool set) {
    return set ? builder.getUnitAttr() : UnitAttr();
  };
  sched::StageOp::create(
      builder, module.getLoc(), builder.getStringAttr(module.getSymName()),
      symbol(units[dist::Placement(module).unit]),
      cast<ArrayAttr>(getReplicas(module)),
      list(sync ? times.forward + times.input + times.weight : times.forward),
      hasBackward ? list(times.input) : DenseI64ArrayAttr(),
      hasBackward && trains ? list(times.weight) : DenseI64ArrayAttr(),
      sync ? DenseI64ArrayAttr() : list(times.keeps),
      hasBackward && trains ? list(times.waits) : DenseI64ArrayAttr(),
      hasBackward && trains ? list(times.late) : DenseI64ArrayAttr(),
      IntegerAttr(), unit(!hasBackward && !sync), unit(hasBackward && !trains),
      unit(sync));
  return success();
}

/// Through a broker any replica may hold items of any.
ArrayAttr ProblemBuilder::getRoutes(dist::EdgeOp edge, dist::ModuleOp from,
                                    dist::ModuleOp to, int64_t latency) {
  auto broker = edge.getBroker();
  if ((broker ? *broker : chooseBroker(from, to)) != dist::Broker::items)
    return {};
  SmallVector<Attribute> routes;
  for (int64_t i = 0; i < dist::Placement(from).dp; ++i)
    for (int64_t j = 0; j < dist::Placement(to).dp; ++j)
      routes.push_back(builder.getI64ArrayAttr({-1, i, j, latency}));
  return builder.getArrayAttr(routes);
}

/// As the plan says, of this edge or of stages that follow one another; else of
/// all that goes from the one module to the other at once.
FailureOr<int64_t> ProblemBuilder::getMessageTime(dist::EdgeOp edge) {
  dist::ModuleOp from = moduleOf(edge.getSource()),
                 to = moduleOf(edge.getTarget());
  if (auto planned = edge.getMessage())
    return *planned;
  dist::Placement sender(from), receiver(to);
  if (auto planned = schedule::getTimes(from);
      planned && planned->message && sender.unit == receiver.unit)
    return planned->message;
  if (failed(openCluster()))
    return failure();
  func::FuncOp forward = dist::getFunctions(from).forward;
  BoundSizes costs(from);
  double bytes = 0;
  for (auto other : program.getOps<dist::EdgeOp>())
    if (other.getSource() == edge.getSource() &&
        other.getTarget() == edge.getTarget())
      if (auto i = dist::ModuleOp::findResult(forward, other.getOutput()))
        bytes += costs.bytesOf(forward.getResultTypes()[*i]);
  int64_t a = sender.ranks[0], b = receiver.ranks[0];
  return nanoseconds(
      cluster
          ->pointToPoint(cluster->getNodeKind(a), cluster->getNodeKind(b),
                         cluster->getNode(a) == cluster->getNode(b))
          .time(bytes * double(sender.sub * to.getSpan()) /
                double(from.getSpan())));
}

LogicalResult ProblemBuilder::addEdge(dist::EdgeOp edge) {
  dist::ModuleOp from = moduleOf(edge.getSource()),
                 to = moduleOf(edge.getTarget());
  auto latency = getMessageTime(edge);
  if (failed(latency))
    return failure();
  edge.setMessage(*latency);
  int64_t depth = edge.getDepth().value_or(plan ? plan.getDepth() : 2);
  sched::EdgeOp::create(
      builder, edge.getLoc(), symbol(edge.getSource()),
      symbol(edge.getTarget()), builder.getI64IntegerAttr(*latency),
      hasGradient(edge, dist::getFunctions(from)) ? UnitAttr()
                                                  : builder.getUnitAttr(),
      builder.getI64IntegerAttr(depth), getRoutes(edge, from, to, *latency));
  return success();
}

/// What the plan leaves a rank for activations: as its stages' times say, else
/// what it gives a rank, less what that holds all the time.
LogicalResult ProblemBuilder::boundMemory() {
  int64_t ranks = plan ? int64_t(plan.getRanks()) : 1;
  SmallVector<int64_t> room(ranks, std::numeric_limits<int64_t>::max());
  bool bounded = false;
  for (auto module : program.getOps<dist::ModuleOp>())
    if (auto planned = schedule::getTimes(module); planned && planned->room)
      for (int64_t rank : dist::Placement(module).ranks) {
        bounded = true;
        room[rank] = std::min(room[rank], planned->room);
      }
  if (bounded)
    problem.setMemory(room);
  auto given = plan ? plan.getMemory() : std::nullopt;
  if (!given)
    return success();
  SmallVector<int64_t> left(*given);
  for (auto module : program.getOps<dist::ModuleOp>()) {
    int64_t state = toInteger(getStateBytes(module).total());
    for (int64_t rank : dist::Placement(module).ranks)
      if (size_t(rank) < left.size())
        left[rank] -= state;
  }
  for (auto [rank, bytes] : llvm::enumerate(left))
    if (bytes < 0)
      return plan.emitError()
             << "memory: rank " << rank << " has " << (*given)[rank]
             << " bytes; its parameters, their gradients and "
                "optimizer state take "
             << (*given)[rank] - bytes;
  problem.setMemory(left);
  return success();
}

FailureOr<sched::ProblemOp> ProblemBuilder::build() {
  int64_t ranks = plan ? int64_t(plan.getRanks()) : 1;
  std::string name = "step"; // or what no module is called
  while (program.lookupSymbol(name))
    name += '_';
  builder.setInsertionPointToEnd(program.getBody());
  problem = sched::ProblemOp::create(
      builder, program.getLoc(), builder.getStringAttr(name),
      builder.getI64IntegerAttr(ranks),
      builder.getI64IntegerAttr(dist::getNumMicrobatches(program)),
      DenseI64ArrayAttr(), IntegerAttr());
  builder.createBlock(&problem.getBody());
  if (failed(addUnits()))
    return failure();
  for (auto module : program.getOps<dist::ModuleOp>())
    if (failed(addStage(module)))
      return failure();
  for (auto edge : program.getOps<dist::EdgeOp>())
    if (failed(addEdge(edge)))
      return failure();
  if (failed(boundMemory()))
    return failure();
  return problem;
}

struct DistSchedulePass : impl::DistScheduleBase<DistSchedulePass> {
  using DistScheduleBase::DistScheduleBase;

  void runOnOperation() override {
    mlir::ModuleOp program = getOperation();
    auto plan = dist::getOnly<dist::PlanOp>(program);
    if ((!plan && planned) || program.getOps<dist::ModuleOp>().empty())
      return;
    if (!program.getOps<sched::ProblemOp>().empty()) {
      program.emitError("has a sched.problem; dist-schedule makes it");
      return signalPassFailure();
    }
    if (plan)
      setPeaks(program, plan);
    auto problem = ProblemBuilder(program, plan).build();
    // Before it is solved: a problem that cannot be is said to be one.
    if (failed(problem) || failed(mlir::verify(*problem)) ||
        failed(solve(*problem, plan)))
      signalPassFailure();
  }

private:
  /// Found once for all ranks that do the same, as the planner does.
  llvm::Expected<scheduler::Solution> order(const scheduler::Problem &problem,
                                            StringRef name) {
    if (llvm::Error error = problem.check())
      return std::move(error);
    auto solution = scheduler::solveMerged(problem, name);
    if (!solution)
      return solution.takeError();
    if (llvm::Error error =
            scheduler::communicate(scheduler::TaskGraph(problem), *solution))
      return llvm::createStringError(name + ": " + toString(std::move(error)));
    return solution;
  }

  /// Without bounds on messages that wait, else without those on forwards
  /// either that no gradient comes back to.
  llvm::Expected<scheduler::Solution> orderWithout(sched::ProblemOp op,
                                                   scheduler::Problem &problem,
                                                   StringRef name,
                                                   StringRef why) {
    for (scheduler::Edge &edge : problem.edges)
      edge.receiveDepth = 0;
    auto solution = order(problem, name);
    if (!solution) {
      llvm::consumeError(solution.takeError());
      for (const scheduler::Stage &stage : problem.stages)
        if (!stage.hasBackward)
          problem.units[stage.unit].runAhead.reset();
      solution = order(problem, name);
    }
    if (!solution)
      return solution;
    for (auto edge : op.getOps<sched::EdgeOp>())
      edge.removeDepthAttr();
    op.emitRemark() << "receivers have buffers for all microbatches: " << why;
    for (auto [unit, now] :
         llvm::zip(op.getOps<sched::UnitOp>(), problem.units))
      if (unit.getRunAhead() && !now.runAhead) {
        unit.removeRunAheadAttr();
        unit.emitRemark() << "run_ahead bounds nothing in '" << name
                          << "': " << why;
      }
    return solution;
  }

  LogicalResult solve(sched::ProblemOp op, dist::PlanOp plan) {
    StringRef name = plan ? plan.getSchedule() : StringRef("accumulate");
    scheduler::Problem problem = op.getProblem();
    auto solution = order(problem, name);
    if (!solution) {
      // Bounds on what waits are wishes: some orders need more.
      std::string why = toString(solution.takeError());
      solution = orderWithout(op, problem, name, why);
      if (!solution) {
        llvm::consumeError(solution.takeError());
        return (plan ? plan.emitError() : op.emitError())
               << "pipelines.schedule: '" << name << "': " << why;
      }
    }
    // Schedules that search keep to the bound, others may not.
    scheduler::TaskGraph graph(problem);
    if (llvm::Error error = scheduler::checkMemory(graph, *solution))
      return (plan ? plan.emitError() : op.emitError())
             << "memory: " << toString(std::move(error));
    OpBuilder builder(&getContext());
    sched::buildSolution(builder, op, *solution, name);
    return success();
  }
};

} // namespace

} // namespace dt::schedule
