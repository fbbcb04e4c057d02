//===- Lookups.cpp - Indices that are raw inputs ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// ONNX counts negative indices from the end. A graph that means this computes
// or holds them; token ids and labels come from outside, and one below 0 is a
// mistake there that would train on in silence: PyTorch's embeddings and
// gathers refuse it.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/Program.h"

#include "dialects/nn/NNLimits.h"
#include "dialects/nn/NNOps.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace dt::models {

namespace {

/// Rows of a parameter are looked up from data; those of a computed value may
/// well be asked for from the end (`hidden[:, -1]`).
bool isTable(Value value) {
  return value.getDefiningOp<nn::ReadOp>() != nullptr;
}

/// Follows what keeps the numbers.
void markUses(Value indices) {
  for (OpOperand &use : indices.getUses()) {
    Operation *user = use.getOwner();
    bool looksUp = false;
    if (auto gather = dyn_cast<nn::GatherOp>(user))
      looksUp = use.get() == gather.getIndices() && isTable(gather.getInput());
    else if (auto elements = dyn_cast<nn::GatherElementsOp>(user))
      // Of an operator alone, whose input is one of the graph's, ONNX's rule
      // holds.
      looksUp = use.get() == elements.getIndices() &&
                elements.getInput().getDefiningOp();
    else if (isa<nn::CastOp, nn::ReshapeOp, nn::TransposeOp, nn::SliceOp,
                 nn::BroadcastOp>(user) &&
             isa<IntegerType>(getElementTypeOrSelf(user->getResult(0))))
      markUses(user->getResult(0));
    if (looksUp)
      cast<nn::IndexedOpInterface>(user).setFromStart(true);
  }
}

} // namespace

void markLookups(mlir::ModuleOp program) {
  for (auto module : program.getOps<dist::ModuleOp>()) {
    func::FuncOp forward = module.getForward();
    for (BlockArgument argument : forward.getArguments()) {
      StringRef name =
          dist::ModuleOp::getArgumentName(forward, argument.getArgNumber());
      bool isConnected =
          llvm::any_of(program.getOps<dist::EdgeOp>(), [&](auto edge) {
            return edge.getTarget() == module.getSymName() &&
                   edge.getInput() == name;
          });
      if (!isConnected && isa<IntegerType>(getElementTypeOrSelf(argument)))
        markUses(argument);
    }
  }
}

} // namespace dt::models
