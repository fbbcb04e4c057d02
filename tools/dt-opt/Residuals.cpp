//===- Residuals.cpp - What buffers of the arena hold -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Lowering numbers what a forward keeps for its backward: saved0, saved1, ….
// Before it each is the result of an operator in a layer, which says more.
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Report.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNNames.h"
#include "dialects/nn/NNOps.h"

using namespace mlir;

namespace dt {

namespace {

/// The call of a layer and the operator that made a value; with the operands
/// that calls handed down.
struct Made {
  OpResult result;        ///< null: an argument of the module
  func::CallOp outermost; ///< null: made outside layers
};

Made followCalls(Value value) {
  Made made{dyn_cast<OpResult>(value), nullptr};
  while (made.result) {
    auto call = dyn_cast<func::CallOp>(made.result.getOwner());
    if (!call)
      break;
    if (!made.outermost)
      made.outermost = call;
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        call, call.getCalleeAttr());
    if (!callee || callee.isExternal())
      break;
    auto returned = cast<func::ReturnOp>(callee.front().getTerminator())
                        .getOperand(made.result.getResultNumber());
    auto inner = dyn_cast<OpResult>(returned);
    if (!inner) // handed through
      break;
    made.result = inner;
  }
  return made;
}

/// The name of a parameter that a value is; empty: it is none.
StringRef getParameter(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    auto name = function ? function.getArgAttrOfType<StringAttr>(
                               argument.getArgNumber(), nn::kNameAttr)
                         : StringAttr();
    return name ? name.getValue() : "";
  }
  auto read = value.getDefiningOp<nn::ReadOp>();
  return read ? read.getParameter() : "";
}

/// What all names begin with, up to a dot: "model.layers.0".
std::string getCommonPrefix(ArrayRef<StringRef> names) {
  if (names.empty())
    return "";
  StringRef prefix = names.front().rsplit('.').first;
  for (StringRef name : names.drop_front())
    while (!prefix.empty() &&
           !(name.starts_with(prefix) &&
             name.drop_front(prefix.size()).starts_with(".")))
      prefix = prefix.contains('.') ? prefix.rsplit('.').first : "";
  return prefix.str();
}

/// The layer's parameters say which one it is.
std::string nameLayer(func::CallOp call) {
  if (!call)
    return "";
  SmallVector<StringRef> names;
  for (Value operand : call.getOperands())
    if (auto read = operand.getDefiningOp<nn::ReadOp>())
      names.push_back(read.getParameter());
  std::string prefix = getCommonPrefix(names);
  return prefix.empty() ? call.getCallee().split('.').first.str() : prefix;
}

/// "linear self_attn.k_proj", "attention lse".
std::string nameOperator(OpResult result) {
  Operation *op = result.getOwner();
  std::string name = op->getName().stripDialect().str();
  if (auto fused = dyn_cast<nn::FusedOp>(op); fused && fused.getKernel())
    name = fused.getKernel()->str();
  for (Value operand : op->getOperands()) {
    StringRef parameter = getParameter(operand);
    if (!parameter.empty() && !isa<nn::ReadOp>(op)) {
      parameter.consume_back(".weight");
      return name + " " + parameter.str();
    }
  }
  if (op->getNumResults() > 1 && result.getResultNumber() > 0)
    name += " #" + std::to_string(result.getResultNumber());
  return name;
}

} // namespace

void addResiduals(ModuleOp program, ProgramReport &report) {
  for (auto module : program.getOps<dist::ModuleOp>()) {
    func::FuncOp forward = dist::getFunctions(module).forward;
    if (!forward || forward.isExternal())
      continue;
    Operation *end = forward.front().getTerminator();
    std::vector<ResidualReport> &list =
        report.residuals[module.getSymName().str()];
    list.clear();
    for (unsigned i = 0; i < forward.getNumResults(); ++i) {
      if (!forward.getResultAttr(i, nn::kResidualAttr))
        continue;
      Made made = followCalls(end->getOperand(i));
      ResidualReport residual;
      residual.layer = nameLayer(made.outermost);
      residual.made = made.result ? nameOperator(made.result) : "input";
      list.push_back(residual);
    }
  }
}

} // namespace dt
