//===- ShortChains.cpp - A program of fewer layers --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/ShortChains.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace dt::plan {

namespace {

/// Layers of a chain of equal ones that are described.
constexpr int kShortChain = kDescribedChain + 2;

/// How often names of symbols stand in a program, by their last part.
llvm::DenseMap<Attribute, int> countUses(mlir::ModuleOp program) {
  llvm::DenseMap<Attribute, int> uses;
  program.walk([&](Operation *op) {
    op->getAttrDictionary().walk(
        [&](SymbolRefAttr symbol) { ++uses[symbol.getLeafReference()]; });
  });
  return uses;
}

/// Takes calls of layers out of modules.
class ChainShortener {
public:
  explicit ChainShortener(mlir::ModuleOp program) : uses(countUses(program)) {}

  void shorten(dist::ModuleOp module) {
    func::FuncOp forward = module.getForward();
    if (!forward || !forward.getBody().hasOneBlock())
      return;
    func::CallOp before;
    int length = 1;
    for (auto call :
         llvm::make_early_inc_range(forward.getOps<func::CallOp>())) {
      length = follows(call, before) ? length + 1 : 1;
      if (length < kShortChain || !getStream(call))
        before = call;
      else
        erase(module, call, before);
    }
  }

private:
  /// The result that only the next call of the same layer takes, if all others
  /// are only added to a sum over layers.
  static Value getStream(func::CallOp call) {
    Value stream;
    for (Value result : call.getResults()) {
      if (!result.hasOneUse())
        return nullptr;
      Operation *user = *result.user_begin();
      auto next = dyn_cast<func::CallOp>(user);
      if (next && next.getCallee() == call.getCallee() && !stream)
        stream = result;
      else if (!isa<nn::AddOp>(user) ||
               user->getOperand(0) == user->getOperand(1))
        return nullptr;
    }
    return stream;
  }

  /// Whether the call takes what only the one before made, of the same layer,
  /// and has parameters of its own.
  bool follows(func::CallOp call, func::CallOp before) {
    auto isOwn = [&](Value operand) {
      auto read = operand.getDefiningOp<nn::ReadOp>();
      return !read || (read->hasOneUse() &&
                       uses[read.getParameterAttr().getLeafReference()] == 1);
    };
    Value stream = before ? getStream(before) : nullptr;
    return stream && *stream.user_begin() == call &&
           llvm::all_of(call.getOperands(), isOwn);
  }

  void erase(dist::ModuleOp module, func::CallOp call, func::CallOp before) {
    SmallVector<nn::ReadOp> reads;
    for (Value operand : call.getOperands())
      if (auto read = operand.getDefiningOp<nn::ReadOp>())
        reads.push_back(read);
    Value stream = getStream(call);
    for (Value result : call.getResults()) {
      if (result == stream)
        continue;
      Operation *add = *result.user_begin();
      bool isFirst = add->getOperand(0) == result;
      add->getResult(0).replaceAllUsesWith(add->getOperand(isFirst ? 1 : 0));
      add->erase();
    }
    stream.replaceAllUsesWith(getStream(before));
    call.erase();
    for (nn::ReadOp read : reads) {
      module.lookupSymbol(read.getParameterAttr())->erase();
      read.erase();
    }
  }

  llvm::DenseMap<Attribute, int> uses;
};

} // namespace

void shortenChains(mlir::ModuleOp program) {
  ChainShortener shortener(program);
  for (auto module : program.getOps<dist::ModuleOp>())
    shortener.shorten(module);
}

} // namespace dt::plan
