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
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    auto type = cast<RankedTensorType>(parameter.getType());
    int64_t size =
        type.getNumElements() * nn::getElementBytes(type.getElementType());
    bytes.parameters += size;
    if (parameter.getTrainable())
      bytes.gradients += size;
  }
  int64_t moments =
      dist::getNumMoments(module->getParentOfType<mlir::ModuleOp>());
  dist::Placement placement(module);
  int64_t shares = placement.zero ? placement.dp : 1;
  bytes.optimizer = moments * ((bytes.gradients + shares - 1) / shares);
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
