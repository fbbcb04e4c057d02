//===- RankBytes.cpp - Predicted bytes of a rank ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/stages/RankBytes.h"

using namespace mlir;

namespace dt::stages {

StateBytes getStateBytes(dist::ModuleOp module) {
  StateBytes bytes;
  int64_t masters = 0;
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    auto bytesOf = [](RankedTensorType type) {
      return type.getNumElements() * nn::getElementBytes(type.getElementType());
    };
    int64_t gradient = bytesOf(cast<RankedTensorType>(parameter.getType()));
    bytes.parameters += bytesOf(parameter.getStoredType());
    if (!parameter.getTrainable())
      continue;
    bytes.gradients += gradient;
    masters += parameter.getWorking() ? gradient : 0;
  }
  int64_t moments =
      dist::getNumMoments(module->getParentOfType<mlir::ModuleOp>());
  dist::Placement placement(module);
  int64_t shares = placement.zero ? placement.dp : 1;
  auto share = [&](int64_t size) { return (size + shares - 1) / shares; };
  bytes.optimizer = moments * share(bytes.gradients) + share(masters);
  return bytes;
}

double getSlotBytes(dist::ModuleOp module, NominalCosts &costs) {
  double bytes = 0; // of a piece
  auto forward = module.lookupSymbol<func::FuncOp>("forward.fwd");
  if (!forward)
    forward = module.getForward();
  if (forward) {
    for (Type type : forward.getArgumentTypes())
      bytes += costs.bytesOf(type);
    for (Type type : forward.getResultTypes())
      bytes += costs.bytesOf(type);
  }
  // Of backwards only what comes in and goes out over edges: the rest is the
  // forward's.
  for (StringRef name : {"forward.bwd", "forward.bwd.input"})
    if (auto backward = module.lookupSymbol<func::FuncOp>(name)) {
      for (unsigned i = 0; i < backward.getNumArguments(); ++i)
        if (backward.getArgAttr(i, nn::kGradOfAttr))
          bytes += costs.bytesOf(backward.getArgumentTypes()[i]);
      for (Type type : backward.getResultTypes())
        bytes += costs.bytesOf(type);
    }
  return bytes * double(dist::Placement(module).sub);
}

} // namespace dt::stages
