//===- DistSchedule.cpp - A program's step as a scheduling problem --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Comes when functions have the shapes of one rank and ops still have costs.
// Times are nominal (NominalCosts.h): an order of tasks needs ratios only.
//
//===----------------------------------------------------------------------===//

#include "passes/schedule/Passes.h"
#include "passes/scheduler/core/Evaluate.h"
#include "passes/scheduler/core/Schedule.h"
#include "passes/stages/NominalCosts.h"
#include "passes/stages/RankBytes.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace dt::schedule {

using namespace stages;

#define GEN_PASS_DEF_DISTSCHEDULE
#include "passes/schedule/Passes.h.inc"

namespace {

/// The functions of a module's tasks; null if there is none.
struct Tasks {
  func::FuncOp forward, backward, input, weight;

  explicit Tasks(dist::ModuleOp module) {
    auto find = [&](StringRef name) {
      return module.lookupSymbol<func::FuncOp>(name);
    };
    forward = find("forward.fwd");
    if (!forward)
      forward = find("forward");
    backward = find("forward.bwd");
    input = find("forward.bwd.input");
    weight = find("forward.bwd.weight");
  }
  bool hasBackward() const { return backward || input || weight; }
};

/// What goes back is an argument of the sender's backward.
bool hasGradient(dist::EdgeOp edge, const Tasks &sender) {
  std::string name = (edge.getTarget() + "." + edge.getInput()).str();
  for (func::FuncOp function : {sender.backward, sender.input, sender.weight})
    for (unsigned i = 0; function && i < function.getNumArguments(); ++i)
      if (auto from = function.getArgAttrOfType<StringAttr>(i, nn::kEdgeAttr);
          from && from.getValue() == name)
        return true;
  return false;
}

class ProblemBuilder {
public:
  ProblemBuilder(mlir::ModuleOp program, dist::PlanOp plan)
      : program(program), plan(plan), builder(program.getContext()) {}

  FailureOr<sched::ProblemOp> build();

private:
  LogicalResult addUnits();
  LogicalResult addStage(dist::ModuleOp module);
  void addEdge(dist::EdgeOp edge);
  LogicalResult boundMemory();
  Attribute getReplicas(dist::ModuleOp module);
  ArrayAttr getRoutes(dist::EdgeOp edge, dist::ModuleOp from,
                      dist::ModuleOp to);
  DenseI64ArrayAttr list(double value) {
    return builder.getDenseI64ArrayAttr({toInteger(value)});
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
  llvm::StringMap<std::string> units; ///< their symbols in the problem
};

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
    auto ahead = module->getAttrOfType<IntegerAttr>(dist::kRunAheadAttr);
    sched::UnitOp::create(builder, module.getLoc(), builder.getStringAttr(name),
                          ahead ? builder.getI64IntegerAttr(ahead.getInt())
                                : IntegerAttr());
  }
  return success();
}

/// A replica is a tensor-parallel group; of a whole-batch module all its ranks
/// are one.
Attribute ProblemBuilder::getReplicas(dist::ModuleOp module) {
  dist::Placement placement(module);
  int64_t size = module.getWholeBatch() ? placement.ranks.size() : placement.tp;
  SmallVector<Attribute> replicas;
  for (size_t i = 0; i + size <= placement.ranks.size(); i += size)
    replicas.push_back(
        builder.getI64ArrayAttr(ArrayRef(placement.ranks).slice(i, size)));
  return builder.getArrayAttr(replicas);
}

double getTime(const Tasks &tasks, NominalCosts &costs) {
  double sum = 0;
  for (func::FuncOp f :
       {tasks.forward, tasks.backward, tasks.input, tasks.weight})
    sum += f ? costs.of(f).ns : 0;
  return sum;
}

/// What forming microbatches balances: ns of one item more in a part, at the
/// bounds of all. A module by sample has items of other kinds as well; what it
/// would not do without them is theirs, the rest is the samples'.
void setItemCosts(dist::ModuleOp module, const Tasks &tasks, double ns) {
  StringRef own = module.getItem().value_or(dist::kSample);
  llvm::MapVector<StringRef, nn::DimOp> kinds; // items of a kind count once
  for (auto dim : module.getOps<nn::DimOp>())
    if (dim.getItem() && dim.getMax().value_or(0) > 0)
      kinds.insert({*dim.getItem(), dim});
  // Whole units of 1/256 ns, which is what the runtime counts in.
  auto set = [&](nn::DimOp dim, double all) {
    double one = std::max(0.0, all) / double(*dim.getMax());
    dim->setAttr(dist::kCostAttr,
                 Builder(module.getContext())
                     .getF64FloatAttr(std::round(256 * one) / 256));
  };
  double left = ns;
  for (auto [kind, dim] : kinds) {
    if (own != dist::kSample || kind == own)
      continue;
    NominalCosts without(module, kind);
    double theirs = ns - getTime(tasks, without);
    set(dim, theirs);
    left -= theirs;
  }
  if (nn::DimOp dim = kinds.lookup(own))
    set(dim, left);
}

LogicalResult ProblemBuilder::addStage(dist::ModuleOp module) {
  Tasks tasks(module);
  if (!tasks.forward)
    return module.emitOpError("has no function @forward.fwd or @forward");
  NominalCosts costs(module);
  // A task works on all pieces of a replica's share.
  double pieces = double(dist::Placement(module).sub);
  auto time = [&](func::FuncOp function) {
    return function ? costs.of(function).ns * pieces : 0;
  };
  bool trains = false;
  module.walk([&](nn::AccumulateOp) { trains = true; });
  double forward = time(tasks.forward), backward = time(tasks.backward);
  double input = time(tasks.input), weight = time(tasks.weight);
  setItemCosts(module, tasks, (forward + backward + input + weight) / pieces);
  if (tasks.backward) {
    weight = trains ? backward / 2 : 0;
    input = backward - weight;
  }
  bool sync = module.getWholeBatch();
  bool hasBackward = tasks.hasBackward() && !sync;
  double keeps = getSlotBytes(module, costs);
  auto unit = [&](bool set) {
    return set ? builder.getUnitAttr() : UnitAttr();
  };
  sched::StageOp::create(
      builder, module.getLoc(), builder.getStringAttr(module.getSymName()),
      symbol(units[dist::Placement(module).unit]),
      cast<ArrayAttr>(getReplicas(module)),
      list(sync ? forward + backward : forward),
      hasBackward ? list(input) : DenseI64ArrayAttr(),
      hasBackward && trains ? list(weight) : DenseI64ArrayAttr(),
      sync ? DenseI64ArrayAttr() : list(keeps),
      hasBackward && trains ? list(keeps) : DenseI64ArrayAttr(), IntegerAttr(),
      unit(!hasBackward && !sync), unit(hasBackward && !trains), unit(sync));
  return success();
}

/// Through a broker any replica may hold items of any.
ArrayAttr ProblemBuilder::getRoutes(dist::EdgeOp edge, dist::ModuleOp from,
                                    dist::ModuleOp to) {
  auto broker = edge->getAttrOfType<StringAttr>(dist::kBrokerAttr);
  if ((broker ? broker.getValue() : chooseBroker(from, to)) !=
      dist::kBrokerItems)
    return {};
  SmallVector<Attribute> routes;
  for (int64_t i = 0; i < dist::Placement(from).dp; ++i)
    for (int64_t j = 0; j < dist::Placement(to).dp; ++j)
      routes.push_back(builder.getI64ArrayAttr({-1, i, j, kMessageNs}));
  return builder.getArrayAttr(routes);
}

void ProblemBuilder::addEdge(dist::EdgeOp edge) {
  dist::ModuleOp from = moduleOf(edge.getSource()),
                 to = moduleOf(edge.getTarget());
  Tasks sender(from);
  NominalCosts costs(from);
  double bytes = 0;
  if (auto i = dist::ModuleOp::findResult(sender.forward, edge.getOutput()))
    bytes = costs.bytesOf(sender.forward.getResultTypes()[*i]) *
            double(dist::Placement(from).sub);
  int64_t depth = plan ? plan.getDepth() : 2;
  if (auto own = edge->getAttrOfType<IntegerAttr>(dist::kDepthAttr))
    depth = own.getInt();
  sched::EdgeOp::create(
      builder, edge.getLoc(), symbol(edge.getSource()),
      symbol(edge.getTarget()),
      builder.getI64IntegerAttr(
          toInteger(kMessageNs + bytes / kMessageBytesPerNs)),
      hasGradient(edge, sender) ? UnitAttr() : builder.getUnitAttr(),
      builder.getI64IntegerAttr(depth), getRoutes(edge, from, to));
}

/// What the plan gives a rank, less what it holds all the time.
LogicalResult ProblemBuilder::boundMemory() {
  auto given = plan ? plan->getAttrOfType<DenseI64ArrayAttr>(dist::kMemoryAttr)
                    : DenseI64ArrayAttr();
  if (!given)
    return success();
  SmallVector<int64_t> left(given.asArrayRef());
  for (auto module : program.getOps<dist::ModuleOp>()) {
    StateBytes state = getStateBytes(module);
    for (int64_t rank : dist::Placement(module).ranks)
      if (size_t(rank) < left.size())
        left[rank] -= state.total();
  }
  for (auto [rank, bytes] : llvm::enumerate(left))
    if (bytes < 0)
      return plan.emitError()
             << "memory: rank " << rank << " has " << given[rank]
             << " bytes; its parameters, their gradients and "
                "optimizer state take "
             << given[rank] - bytes;
  problem.setMemory(left);
  return success();
}

FailureOr<sched::ProblemOp> ProblemBuilder::build() {
  int64_t ranks = plan ? int64_t(plan.getRanks()) : 1;
  builder.setInsertionPointToEnd(program.getBody());
  problem = sched::ProblemOp::create(
      builder, program.getLoc(), builder.getStringAttr("step"),
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
    addEdge(edge);
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
    if (program.lookupSymbol("step")) {
      program.emitError("has a symbol @step; dist-schedule makes it");
      return signalPassFailure();
    }
    auto problem = ProblemBuilder(program, plan).build();
    // Before it is solved: a problem that cannot be is said to be one.
    if (failed(problem) || failed(mlir::verify(*problem)) ||
        failed(solve(*problem, plan)))
      signalPassFailure();
  }

private:
  LogicalResult solve(sched::ProblemOp op, dist::PlanOp plan) {
    StringRef name = plan ? plan.getSchedule() : StringRef("accumulate");
    scheduler::Problem problem = op.getProblem();
    auto solution = scheduler::solve(problem, name);
    if (!solution) {
      // A bound on waiting messages is a wish: some orders need more.
      std::string why = toString(solution.takeError());
      for (scheduler::Edge &edge : problem.edges)
        edge.receiveDepth = 0;
      solution = scheduler::solve(problem, name);
      if (!solution) {
        llvm::consumeError(solution.takeError());
        return (plan ? plan.emitError() : op.emitError())
               << "pipelines.schedule: '" << name << "': " << why;
      }
      for (auto edge : op.getOps<sched::EdgeOp>())
        edge.removeDepthAttr();
      op.emitRemark() << "receivers have buffers for all microbatches: " << why;
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
