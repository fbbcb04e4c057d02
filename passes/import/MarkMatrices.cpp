//===- MarkMatrices.cpp - Which parameters are matrices ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// While products still read parameters by name and layers are not outlined.
//
//===----------------------------------------------------------------------===//

#include "passes/import/Passes.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dt::import {
#define GEN_PASS_DEF_MARKMATRICES
#include "passes/import/Passes.h.inc"

namespace {

/// Whether all that comes of a product is a cross entropy's logits: no further
/// product reads it, and it does not leave the function.
bool isHead(Value product) {
  llvm::SetVector<Value> reached;
  reached.insert(product);
  bool loss = false;
  for (size_t i = 0; i < reached.size(); ++i)
    for (OpOperand &use : reached[i].getUses()) {
      Operation *user = use.getOwner();
      if (auto entropy = dyn_cast<nn::CrossEntropyOp>(user)) {
        loss |= use.get() == entropy->getOperand(0);
        continue;
      }
      // What goes out beside the loss is the logits again.
      if (isa<nn::LinearOp, nn::MatmulOp, nn::ExpertLinearOp, nn::AttentionOp>(
              user))
        return false;
      for (Value result : user->getResults())
        reached.insert(result);
    }
  return loss;
}

struct Uses {
  bool products = false, others = false;
};

/// A parameter's value, also rounded or transposed.
void addUses(Value value, Uses &uses) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isa<nn::CastOp, nn::TransposeOp>(user)) {
      addUses(user->getResult(0), uses);
      continue;
    }
    auto linear = dyn_cast<nn::LinearOp>(user);
    auto experts = dyn_cast<nn::ExpertLinearOp>(user);
    bool factor = (linear && use.getOperandNumber() == 1) ||
                  (experts && use.get() == experts.getWeight()) ||
                  isa<nn::MatmulOp>(user);
    bool matrix = factor && !isHead(user->getResult(0));
    uses.products |= matrix;
    uses.others |= !matrix;
  }
}

struct MarkMatricesPass : impl::MarkMatricesBase<MarkMatricesPass> {
  void runOnOperation() override {
    auto optimizer = dist::getOnly<dist::OptimizerOp>(getOperation());
    rt::Matrices seen = optimizer ? rt::describe(optimizer.getKind()).matrices
                                  : rt::Matrices::None;
    if (seen == rt::Matrices::None)
      return;
    if (seen == rt::Matrices::Products)
      findUses();
    getOperation().walk([&](nn::ParameterOp parameter) {
      if (!parameter.getTrainable() ||
          cast<RankedTensorType>(parameter.getType()).getRank() < 2)
        return;
      Uses use = uses.lookup(parameter);
      parameter.setMatrix(
          seen == rt::Matrices::Axes ||
          (use.products && !use.others && !parameter.getByElement()));
    });
  }

private:
  void findUses() {
    SymbolTableCollection tables;
    ModuleOp program = getOperation();
    program.walk([&](nn::ReadOp read) {
      if (auto parameter = tables.lookupNearestSymbolFrom<nn::ParameterOp>(
              read, read.getParameterAttr()))
        addUses(read.getResult(), uses[parameter]);
    });
    for (auto tie : program.getOps<dist::TieOp>()) {
      auto alias =
          tables.lookupSymbolIn<nn::ParameterOp>(program, tie.getAliasAttr());
      auto owner = tables.lookupSymbolIn<nn::ParameterOp>(
          program, tie.getParameterAttr());
      if (!alias || !owner)
        continue; // the verifier says so
      Uses other = uses.lookup(alias);
      uses[owner].products |= other.products;
      uses[owner].others |= other.others;
    }
  }

  llvm::DenseMap<Operation *, Uses> uses;
};

} // namespace
} // namespace dt::import
