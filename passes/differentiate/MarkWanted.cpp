//===- MarkWanted.cpp - Which gradients a program needs ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Forward over the modules for what varies, backward for what counts. Tied
// parameters train if the one that holds their value does.
//
//===----------------------------------------------------------------------===//

#include "passes/differentiate/Activity.h"
#include "passes/differentiate/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace dt::differentiate {
#define GEN_PASS_DEF_MARKWANTED
#include "passes/differentiate/Passes.h.inc"
} // namespace dt::differentiate

using namespace dt;
using namespace dt::differentiate;

namespace {

/// A module with its edges and what was found about it.
struct Node {
  dist::ModuleOp module;
  func::FuncOp forward;
  SmallVector<dist::EdgeOp> in, out;
  Flags variedArguments; ///< fed by an edge whose source varies
};

class GradientGraph {
public:
  GradientGraph(ModuleOp program, SymbolTableCollection &tables)
      : program(program), activity(tables) {}

  LogicalResult build();
  void findVaried();
  void markWanted();
  bool anyGradient() const { return gradients; }

private:
  void seedLosses(Node &node, std::vector<SmallVector<Attribute>> &sources);
  void seedEdges(Node &node, std::vector<SmallVector<Attribute>> &sources);
  void mark(Node &node, std::vector<SmallVector<Attribute>> &sources);

  ModuleOp program;
  Activity activity;
  llvm::MapVector<StringAttr, Node> nodes;
  std::vector<Node *> order; // topological
  bool gradients = false;
};

struct MarkWantedPass : differentiate::impl::MarkWantedBase<MarkWantedPass> {
  void runOnOperation() override;
};

} // namespace

LogicalResult GradientGraph::build() {
  for (auto module : program.getOps<dist::ModuleOp>())
    nodes[module.getSymNameAttr()] = {module, module.getForward(), {}, {}, {}};
  llvm::DenseMap<Node *, unsigned> waiting;
  for (auto edge : program.getOps<dist::EdgeOp>()) {
    Node &target = nodes[edge.getTargetAttr().getAttr()];
    nodes[edge.getSourceAttr().getAttr()].out.push_back(edge);
    target.in.push_back(edge);
    ++waiting[&target];
  }
  for (auto &entry : nodes)
    if (!waiting.count(&entry.second))
      order.push_back(&entry.second);
  for (size_t i = 0; i < order.size(); ++i)
    for (dist::EdgeOp edge : order[i]->out) {
      Node *target = &nodes[edge.getTargetAttr().getAttr()];
      if (--waiting[target] == 0)
        order.push_back(target);
    }
  if (order.size() == nodes.size())
    return success();
  for (auto &entry : nodes)
    if (waiting.lookup(&entry.second))
      return entry.second.module.emitOpError(
          "is part of a cycle of dist.edge; modules must form a DAG");
  return success();
}

void GradientGraph::findVaried() {
  for (Node *node : order) {
    if (!node->forward)
      continue;
    node->variedArguments.assign(node->forward.getNumArguments(), false);
    for (dist::EdgeOp edge : node->in) {
      Node &source = nodes[edge.getSourceAttr().getAttr()];
      auto from = dist::ModuleOp::findResult(source.forward, edge.getOutput());
      auto to = dist::ModuleOp::findArgument(node->forward, edge.getInput());
      if (!from || !to)
        continue;
      Flags results =
          activity.variedResults(source.forward, source.variedArguments);
      node->variedArguments[*to] = node->variedArguments[*to] || results[*from];
    }
  }
}

void GradientGraph::seedLosses(Node &node,
                               std::vector<SmallVector<Attribute>> &sources) {
  Builder b(program.getContext());
  for (auto loss : program.getOps<dist::LossOp>()) {
    // One that counts nothing is only shown.
    if (loss.getModuleAttr().getAttr() != node.module.getSymNameAttr() ||
        loss.getWeight().isZero())
      continue;
    if (auto i = dist::ModuleOp::findResult(node.forward, loss.getNumerator()))
      sources[*i].push_back(nn::GradientAttr::get(
          b.getContext(), {}, {}, b.getStringAttr(loss.getName())));
  }
}

void GradientGraph::seedEdges(Node &node,
                              std::vector<SmallVector<Attribute>> &sources) {
  Builder b(program.getContext());
  for (dist::EdgeOp edge : node.out) {
    Node &target = nodes[edge.getTargetAttr().getAttr()];
    auto from = dist::ModuleOp::findResult(node.forward, edge.getOutput());
    auto to = dist::ModuleOp::findArgument(target.forward, edge.getInput());
    if (!from || !to || !target.forward.getArgAttr(*to, nn::kWantsGradAttr))
      continue;
    std::string name = (edge.getTarget() + "." + edge.getInput()).str();
    sources[*from].push_back(
        nn::GradientAttr::get(b.getContext(), {}, b.getStringAttr(name), {}));
  }
}

void GradientGraph::mark(Node &node,
                         std::vector<SmallVector<Attribute>> &sources) {
  Builder b(program.getContext());
  Flags varied = activity.variedResults(node.forward, node.variedArguments);
  Flags seeded;
  for (auto [i, list] : llvm::enumerate(sources)) {
    // A loss that nothing trained reaches needs no gradient.
    seeded.push_back(!list.empty() && varied[i]);
    if (seeded.back()) {
      node.forward.setResultAttr(i, nn::kGradientsAttr, b.getArrayAttr(list));
      gradients = true;
    }
  }
  Flags counts = activity.countingArguments(node.forward, seeded);
  for (unsigned i = 0; i < counts.size(); ++i)
    if (counts[i] && node.variedArguments[i])
      node.forward.setArgAttr(i, nn::kWantsGradAttr, b.getUnitAttr());
}

void GradientGraph::markWanted() {
  for (Node *node : llvm::reverse(order)) {
    if (!node->forward)
      continue;
    std::vector<SmallVector<Attribute>> sources(node->forward.getNumResults());
    seedLosses(*node, sources);
    seedEdges(*node, sources);
    mark(*node, sources);
  }
}

/// A tied parameter trains if the one that it stands for does.
static void followTies(ModuleOp program, SymbolTableCollection &tables) {
  for (auto tie : program.getOps<dist::TieOp>()) {
    auto alias = tables.lookupNearestSymbolFrom<nn::ParameterOp>(
        program, tie.getAliasAttr());
    auto owner = tables.lookupNearestSymbolFrom<nn::ParameterOp>(
        program, tie.getParameterAttr());
    if (alias && owner)
      alias.setTrainable(owner.getTrainable());
  }
}

void MarkWantedPass::runOnOperation() {
  SymbolTableCollection tables;
  followTies(getOperation(), tables);
  GradientGraph graph(getOperation(), tables);
  if (failed(graph.build()))
    return signalPassFailure();
  graph.findVaried();
  graph.markWanted();
  auto losses = getOperation().getOps<dist::LossOp>();
  if (!losses.empty() && !graph.anyGradient()) {
    (*losses.begin())
        .emitOpError("depends on no trainable parameter, and "
                     "neither does any other loss: there is "
                     "nothing to train");
    signalPassFailure();
  }
}
