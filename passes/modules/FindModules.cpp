//===- FindModules.cpp - Modules inside one graph ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An exporter writes a vision encoder, its projector and a language model as
// one graph. Run as one they would share ranks and layout, so they are told
// apart again, by what decides whether that pays: which raw inputs ops depend
// on, how much work that is, and how little goes over the cut
// (docs/modules.md).
//
//===----------------------------------------------------------------------===//

#include "passes/modules/ModuleNames.h"
#include "passes/modules/MoveOps.h"
#include "passes/modules/NarrowCut.h"
#include "passes/modules/Passes.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace dt::modules {
#define GEN_PASS_DEF_FINDMODULES
#include "passes/modules/Passes.h.inc"

namespace {

/// Part of the graph's FLOPs that makes a module, with a stack of equal layers
/// and without one.
constexpr double kShareOfStack = 0.005, kShareAlone = 0.1;

/// Finds the parts of one module, one after another; what is left is the last.
class Finder {
public:
  explicit Finder(dist::ModuleOp module)
      : program(module->getParentOfType<mlir::ModuleOp>()), rest(module),
        name(module.getSymName()), names(inputNames(module)) {
    func::FuncOp forward = module.getForward();
    for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
      Support own(forward.getNumArguments());
      own.set(i);
      supports[dist::ModuleOp::getArgumentName(forward, i)] = own;
    }
    ModuleGraph graph(module, supports);
    total = graph.getFlops();
    Support content = graph.getContentInputs();
    for (auto &entry : supports)
      entry.second &= content;
  }

  /// Cuts once; false if there is nothing more to find.
  bool cutOne();
  /// Gives parts and rest items, roles and names.
  void finish();

private:
  static std::vector<std::string> inputNames(dist::ModuleOp module);
  SmallVector<Support> candidates(const ModuleGraph &graph) const;
  std::string describe(const Support &inputs) const;
  bool accept(const ModuleGraph &graph, const Cut &cut, const Support &inputs,
              std::string &why);
  bool isWorthIt(const ModuleGraph &graph, ArrayRef<size_t> ops) const;
  unsigned countFeeders(const ModuleGraph &graph, ArrayRef<size_t> ops);
  void cut(const ModuleGraph &graph, const Cut &cut, const Support &inputs);
  void remark(const ModuleGraph &graph, const Cut &cut,
              const Support &inputs) const;
  void remarkWhole(ArrayRef<std::string> reasons) const;
  dist::Role roleOf(dist::ModuleOp module);

  mlir::ModuleOp program;
  dist::ModuleOp rest;
  std::string name;               ///< of the module as it came
  std::vector<std::string> names; ///< of its inputs
  llvm::StringMap<Support> supports;
  SmallVector<dist::ModuleOp> parts;
  SmallVector<Support> done;
  double total;
};

std::vector<std::string> Finder::inputNames(dist::ModuleOp module) {
  std::vector<std::string> names;
  func::FuncOp forward = module.getForward();
  for (unsigned i = 0; i < forward.getNumArguments(); ++i)
    names.push_back(dist::ModuleOp::getArgumentName(forward, i).str());
  return names;
}

/// The sets of inputs that ops depend on; what depends on few comes first.
SmallVector<Support> Finder::candidates(const ModuleGraph &graph) const {
  SmallVector<Support> found;
  for (const ModuleGraph::Node &node : graph.getNodes())
    if (!node.isCopied && node.support.any() &&
        !llvm::is_contained(found, node.support) &&
        !llvm::is_contained(done, node.support))
      found.push_back(node.support);
  SmallVector<Support> sorted;
  for (unsigned n = 1; n <= names.size(); ++n)
    llvm::copy_if(found, std::back_inserter(sorted),
                  [&](const Support &set) { return set.count() == n; });
  return sorted;
}

std::string Finder::describe(const Support &inputs) const {
  std::string text;
  for (unsigned i : inputs.set_bits())
    text += (text.empty() ? "'" : ", '") + names[i] + "'";
  return text;
}

bool Finder::isWorthIt(const ModuleGraph &graph, ArrayRef<size_t> ops) const {
  double flops = 0;
  for (size_t i : ops)
    flops += graph[i].flops;
  return flops >= kShareAlone * total ||
         (flops >= kShareOfStack * total && hasEqualLayers(graph, ops));
}

/// Other modules that `ops`, with what is copied for them, get values from.
unsigned Finder::countFeeders(const ModuleGraph &graph, ArrayRef<size_t> ops) {
  llvm::DenseSet<size_t> seen(ops.begin(), ops.end());
  SmallVector<size_t> list(ops);
  llvm::StringSet<> sources;
  while (!list.empty())
    for (Value operand : graph[list.pop_back_val()].op->getOperands()) {
      auto argument = dyn_cast<BlockArgument>(operand);
      if (!argument) {
        auto i = graph.find(operand.getDefiningOp());
        if (graph[*i].isCopied && seen.insert(*i).second)
          list.push_back(*i);
        continue;
      }
      StringRef input = dist::ModuleOp::getArgumentName(
          rest.getForward(), argument.getArgNumber());
      for (auto edge : program.getOps<dist::EdgeOp>())
        if (edge.getTarget() == rest.getSymName() && edge.getInput() == input)
          sources.insert(edge.getSource());
    }
  return sources.size();
}

bool Finder::accept(const ModuleGraph &graph, const Cut &cut,
                    const Support &inputs, std::string &why) {
  if (!isWorthIt(graph, cut.ops)) {
    why = llvm::formatv("has {0:P} of the FLOPs",
                        cut.flops / std::max(total, 1.0));
    return false;
  }
  // What takes more inputs; the rest of what takes these is no reason to cut.
  std::vector<size_t> left;
  for (size_t i = 0; i < graph.size(); ++i)
    if (!graph[i].isCopied && Support(graph[i].support).reset(inputs).any())
      left.push_back(i);
  // A head may be small: what it is for is that several parts meet in it.
  if (!left.empty() && (isWorthIt(graph, left) ||
                        countFeeders(graph, left) + !cut.crossing.empty() > 1))
    return true;
  why = "is nearly all there is";
  return false;
}

bool Finder::cutOne() {
  ModuleGraph graph(rest, supports);
  ItemAnalysis analysis(rest, takesLocalStatistics(program));
  std::vector<std::string> reasons;
  SmallVector<Support> sets = candidates(graph);
  for (bool anyItems : {false, true}) {
    if (anyItems && isCut(program))
      break;
    for (const Support &inputs : sets) {
      std::string why;
      std::optional<Cut> found =
          findNarrowCut(graph, analysis, inputs, anyItems, why);
      if (found && accept(graph, *found, inputs, why)) {
        cut(graph, *found, inputs);
        return true;
      }
      if (!anyItems && !why.empty())
        reasons.push_back("what depends on " + describe(inputs) + " alone " +
                          why);
    }
  }
  if (parts.empty())
    remarkWhole(reasons);
  return false;
}

void Finder::remarkWhole(ArrayRef<std::string> reasons) const {
  constexpr size_t kShown = 4;
  InFlightDiagnostic diagnostic =
      emitRemark(dist::ModuleOp(rest).getLoc(), "'");
  diagnostic << name << "' stays one module";
  for (auto [i, reason] : llvm::enumerate(reasons.take_front(kShown)))
    diagnostic << (i ? ", " : ": ") << reason;
  if (reasons.size() > kShown)
    diagnostic << ", and so on";
}

void Finder::remark(const ModuleGraph &graph, const Cut &cut,
                    const Support &inputs) const {
  double samples = graph.getSamples();
  InFlightDiagnostic diagnostic =
      remarkCut(graph, name, cut.crossing, graph[cut.ops.back()].op);
  diagnostic << "; what depends on " << describe(inputs) << " alone ("
             << formatCount(cut.flops / samples) << "FLOPs a sample"
             << (hasEqualLayers(graph, cut.ops) ? ", with equal layers" : "")
             << ") is apart from the "
             << formatCount((graph.getFlops() - cut.flops) / samples)
             << "FLOPs that are left";
}

void Finder::cut(const ModuleGraph &graph, const Cut &cut,
                 const Support &inputs) {
  remark(graph, cut, inputs);
  MovedOps ops;
  for (size_t i : cut.ops)
    ops.owned.insert(graph[i].op);
  SmallVector<Operation *> list(ops.owned.begin(), ops.owned.end());
  while (!list.empty())
    for (Value operand : list.pop_back_val()->getOperands())
      if (Operation *op = operand.getDefiningOp(); op && !ops.contains(op)) {
        ops.copied.insert(op);
        list.push_back(op);
      }
  dist::ModuleOp module = moveToNewModule(
      rest, ops, freeModuleName(program, name + "_part"), /*upstream=*/true);
  parts.push_back(module);
  for (auto edge : program.getOps<dist::EdgeOp>())
    if (edge.getSource() == module.getSymName() &&
        edge.getTarget() == rest.getSymName())
      supports[edge.getInput()] = inputs;
  done.push_back(inputs);
}

/// By the place among the others.
dist::Role Finder::roleOf(dist::ModuleOp module) {
  auto hasLoss = [&](dist::ModuleOp m) {
    return llvm::any_of(program.getOps<dist::LossOp>(), [&](auto loss) {
      return loss.getModule() == m.getSymName();
    });
  };
  auto receives = [&](dist::ModuleOp m) {
    return llvm::any_of(program.getOps<dist::EdgeOp>(), [&](auto edge) {
      return edge.getTarget() == m.getSymName();
    });
  };
  bool sends = false, toHead = true, fromBackbone = false;
  for (auto edge : program.getOps<dist::EdgeOp>()) {
    if (edge.getSource() == module.getSymName()) {
      auto target = program.lookupSymbol<dist::ModuleOp>(edge.getTarget());
      sends = true;
      toHead &= target.getRole() == dist::Role::head;
    }
    if (edge.getTarget() == module.getSymName()) {
      auto source = program.lookupSymbol<dist::ModuleOp>(edge.getSource());
      fromBackbone |= hasLoss(source) || receives(source);
    }
  }
  if (module.getRole() == dist::Role::head)
    return dist::Role::head;
  if (sends && toHead)
    return dist::Role::tower;
  if (sends && !receives(module) && !hasLoss(module))
    return dist::Role::encoder;
  return !sends && fromBackbone ? dist::Role::generator : dist::Role::backbone;
}

void Finder::finish() {
  rest.setSplit(false);
  if (parts.empty())
    return;
  ModuleGraph graph(rest, supports);
  std::vector<size_t> left;
  for (size_t i = 0; i < graph.size(); ++i)
    if (!graph[i].isCopied && graph[i].support.any())
      left.push_back(i);
  if (!isWorthIt(graph, left))
    rest.setRole(dist::Role::head);
  parts.push_back(rest);
  for (dist::ModuleOp part : parts) {
    part.setItemOfRows();
    if (part != rest)
      part.removeRoleAttr();
  }
  for (dist::ModuleOp part : parts)
    part.setRole(roleOf(part));
  for (auto [i, part] : llvm::enumerate(parts)) {
    SmallVector<dist::ModuleOp> others(parts);
    others.erase(others.begin() + i);
    std::string scope = getScopeName(part, others);
    if (scope.empty())
      scope = dist::stringifyRole(*part.getRole()).str();
    renameModule(part, freeModuleName(program, name + "_" + scope));
  }
}

struct FindModulesPass : impl::FindModulesBase<FindModulesPass> {
  using Base::Base;

  void runOnOperation() override {
    for (auto module :
         llvm::to_vector(getOperation().getOps<dist::ModuleOp>())) {
      if (!module.getForward() || module.getWholeBatch() ||
          !(all || module.getSplit()))
        continue;
      Finder finder(module);
      while (finder.cutOne())
        ;
      finder.finish();
    }
  }
};

} // namespace

} // namespace dt::modules
