//===- ModuleGraph.cpp - A module's ops as a graph with costs ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/modules/ModuleGraph.h"
#include "passes/modules/ItemAxes.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace dt::modules {

namespace {

/// Part of all FLOPs up to which masks and positions are computed twice.
constexpr double kCopiedShare = 1e-3;

/// The same values in another shape, or scaled: a stream goes through.
Value getStreamOperand(Operation *op) {
  if (isa<nn::ReshapeOp, nn::TransposeOp, nn::CastOp, nn::NegOp>(op))
    return op->getOperand(0);
  return {};
}

bool joins(Operation *op) {
  return isa<nn::AddOp, nn::SubOp, nn::ConcatOp>(op);
}

} // namespace

ModuleGraph::ModuleGraph(dist::ModuleOp module,
                         const llvm::StringMap<Support> &supports)
    : module(module), supports(supports) {
  auto program = module->getParentOfType<mlir::ModuleOp>();
  if (auto batch = dist::getOnly<dist::BatchOp>(program))
    samples = batch.getMicro();
  for (auto &entry : supports)
    numInputs = entry.second.size();
  func::FuncOp forward = module.getForward();
  for (Operation &op : forward.getBody().front().without_terminator())
    visit(&op);
  // Costs of what would be copied with an op: its own and its operands'.
  std::vector<double> slice(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node &node = nodes[i];
    slice[i] = node.flops;
    bool operandsCopied = true;
    for (Value operand : node.op->getOperands())
      if (auto j = find(operand.getDefiningOp())) {
        slice[i] += slice[*j];
        operandsCopied &= nodes[*j].isCopied;
      }
    node.isCopied = operandsCopied &&
                    (node.support.none() || (independentOfParameters[i] &&
                                             slice[i] <= kCopiedShare * total));
  }
}

Support ModuleGraph::supportOf(Value value) const {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return nodes[*find(value.getDefiningOp())].support;
  auto it = supports.find(dist::ModuleOp::getArgumentName(
      dist::ModuleOp(module).getForward(), argument.getArgNumber()));
  return it == supports.end() ? Support(numInputs) : it->second;
}

Support ModuleGraph::getContentInputs() const {
  Support content(numInputs);
  for (const Node &node : nodes) {
    if (!node.readsParameter)
      continue;
    for (Value operand : node.op->getOperands()) {
      auto i = find(operand.getDefiningOp());
      if (!i || independentOfParameters[*i])
        content |= supportOf(operand);
    }
  }
  return content;
}

void ModuleGraph::visit(Operation *op) {
  Node node = {op, Support(numInputs), 0, false, false};
  bool independent = !isa<nn::ReadOp>(op);
  for (Value operand : op->getOperands()) {
    node.support |= supportOf(operand);
    if (auto i = find(operand.getDefiningOp())) {
      independent &= bool(independentOfParameters[*i]);
      // Also through what depends on no input, e.g. a weight's other layout.
      node.readsParameter |=
          nodes[*i].support.none() && !independentOfParameters[*i];
    }
  }
  if (auto cost = dyn_cast<nn::CostOpInterface>(op))
    node.flops = evaluate(cost.getFlops());
  total += node.flops;
  numbers[op] = nodes.size();
  nodes.push_back(std::move(node));
  independentOfParameters.push_back(independent);
}

double ModuleGraph::evaluate(const nn::DimExpr &size) const {
  Operation *moduleOp = dist::ModuleOp(module);
  auto value = size.evaluate([&](StringRef symbol) -> std::optional<int64_t> {
    auto dim = dyn_cast_or_null<nn::DimOp>(
        SymbolTable::lookupSymbolIn(moduleOp, symbol));
    return dim && dim.getMax() ? int64_t(*dim.getMax()) : 1;
  });
  return double(value.value_or(0));
}

double ModuleGraph::getBytes(Value value) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.getElementType().isIntOrFloat())
    return 0;
  double bits = type.getElementTypeBitWidth();
  return evaluate(nn::getNumElements(nn::getShape(type))) *
         std::max(1.0, bits / 8);
}

void ModuleGraph::forOperands(size_t i,
                              function_ref<void(size_t)> visit) const {
  for (Value operand : nodes[i].op->getOperands())
    if (auto j = find(operand.getDefiningOp()))
      if (!nodes[*j].isCopied)
        visit(*j);
}

void ModuleGraph::forUsers(Value value,
                           function_ref<void(size_t)> visit) const {
  for (Operation *user : value.getUsers())
    if (auto i = find(user))
      visit(*i);
}

SmallVector<size_t> ModuleGraph::getStreamUses(Value value) const {
  enum { Same = 1, Computed = 2, Depends = 4 };
  SmallVector<size_t> uses;
  auto first = find(value.getDefiningOp());
  if (!first)
    return uses;
  std::vector<char> flags(nodes.size());
  auto flagsOf = [&](Value operand) -> int {
    if (operand == value)
      return Same | Depends;
    auto i = find(operand.getDefiningOp());
    return i && *i > *first ? flags[*i] : 0;
  };
  for (size_t i = *first + 1; i < nodes.size(); ++i) {
    Operation *op = nodes[i].op;
    int all = 0, same = 0, computed = 0;
    for (Value operand : op->getOperands()) {
      int f = flagsOf(operand);
      all |= f;
      same += (f & Same) != 0;
      computed += (f & Computed) && !(f & Same);
    }
    if (!all)
      continue;
    flags[i] = Depends | (all & Computed);
    if (nodes[i].readsParameter)
      flags[i] |= Computed;
    Value through = getStreamOperand(op);
    // Scaled by what depends on no input.
    if (isa<nn::MulOp, nn::DivOp>(op))
      for (unsigned k = 0; k < 2; ++k)
        if (auto j = find(op->getOperand(1 - k).getDefiningOp());
            j && nodes[*j].support.none())
          through = op->getOperand(k);
    if (through && (flagsOf(through) & Same))
      flags[i] = Same | Depends;
    if (joins(op) && same && computed)
      uses.push_back(i);
  }
  return uses;
}

std::string formatCount(double number) {
  if (number >= 1e9)
    return llvm::formatv("{0:f1} G", number / 1e9);
  if (number >= 1e6)
    return llvm::formatv("{0:f1} M", number / 1e6);
  return number >= 1e3 ? llvm::formatv("{0:f1} k", number / 1e3).str()
                       : llvm::formatv("{0:f0} ", number).str();
}

InFlightDiagnostic remarkCut(const ModuleGraph &graph, StringRef module,
                             ArrayRef<Value> crossing, Operation *otherwise) {
  Operation *at =
      crossing.empty() ? otherwise : crossing.back().getDefiningOp();
  InFlightDiagnostic diagnostic = emitRemark(at->getLoc(), "'");
  diagnostic << module << "' is cut";
  double bytes = 0;
  for (auto [i, value] : llvm::enumerate(crossing)) {
    diagnostic << (i ? " and " : " at ") << describe(value.getDefiningOp())
               << " " << value.getType();
    bytes += graph.getBytes(value);
  }
  diagnostic << ": ";
  if (crossing.empty())
    diagnostic << "nothing crosses";
  else
    diagnostic << int64_t(bytes / graph.getSamples())
               << " bytes a sample cross";
  return diagnostic;
}

} // namespace dt::modules
