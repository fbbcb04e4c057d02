//===- Narrow.cpp - Compute-heavy operators in bf16 -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/precision/Passes.h"

#include "dialects/nn/NNInference.h"

using namespace mlir;

namespace dt::precision {
#define GEN_PASS_DEF_NARROW
#include "passes/precision/Passes.h.inc"

namespace {

bool isWide(Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  return type && type.getElementType().isF32();
}

Value castTo(OpBuilder &b, Value v, Type element) {
  return nn::CastOp::create(b, v.getLoc(),
                            nn::withElementType(v.getType(), element), v);
}

/// Which values are made of integers, sizes and numbers only, and of some
/// integer.
class Integers {
public:
  bool make(Value v) {
    auto type = dyn_cast<RankedTensorType>(v.getType());
    if (!type || !isa<FloatType>(type.getElementType()))
      return true;
    Operation *op = v.getDefiningOp();
    if (!op || isa<nn::ReadOp, nn::ConstantOp>(op))
      return false;
    if (auto it = known.find(v); it != known.end())
      return it->second;
    bool result =
        isa<nn::GenerateOp>(op) ||
        (llvm::all_of(op->getOperands(),
                      [&](Value o) { return isNumber(o) || make(o); }) &&
         llvm::any_of(op->getOperands(), [&](Value o) { return make(o); }));
    return known[v] = result;
  }

private:
  static bool isNumber(Value v) {
    return v.getDefiningOp<nn::ConstantOp>() != nullptr;
  }
  llvm::DenseMap<Value, bool> known;
};

class FunctionNarrower {
public:
  explicit FunctionNarrower(func::FuncOp function)
      : function(function), narrow(BFloat16Type::get(function.getContext())) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(function.front()))
      if (mayNarrow(&op))
        narrowOp(&op);
  }

private:
  bool mayNarrow(Operation *op) {
    if (!nn::isComputeHeavy(op))
      return false;
    // A mask of attention keeps its type, and may be made of integers.
    nn::PrecisionRule rule =
        cast<nn::PrecisionOpInterface>(op).getPrecisionRule();
    return llvm::none_of(llvm::zip(op->getOperands(), rule.operands),
                         [&](auto operand) {
                           auto [v, may] = operand;
                           return may && isWide(v) && integers.make(v);
                         });
  }

  void narrowOp(Operation *op) {
    nn::PrecisionRule rule =
        cast<nn::PrecisionOpInterface>(op).getPrecisionRule();
    OpBuilder before(op);
    for (auto [operand, may] : llvm::zip(op->getOpOperands(), rule.operands))
      if (may && isWide(operand.get()))
        operand.set(narrowed(before, operand.get()));
    OpBuilder after(op->getContext());
    after.setInsertionPointAfter(op);
    for (auto [result, may] : llvm::zip(op->getResults(), rule.results)) {
      if (!may || !isWide(result))
        continue;
      Type wide = nn::elementOf(result);
      result.setType(nn::withElementType(result.getType(), narrow));
      Value widened = castTo(after, result, wide);
      result.replaceAllUsesExcept(widened, widened.getDefiningOp());
    }
  }

  /// One cast a value, where it is first needed: blocks are in order.
  Value narrowed(OpBuilder &b, Value v) {
    Value &cast = casts[v];
    if (!cast)
      cast = castTo(b, v, narrow);
    return cast;
  }

  func::FuncOp function;
  Type narrow;
  Integers integers;
  llvm::DenseMap<Value, Value> casts;
};

struct Narrow : impl::NarrowBase<Narrow> {
  using NarrowBase::NarrowBase;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto module : getOperation().getOps<dist::ModuleOp>())
      if (isNarrow(module))
        FunctionNarrower(module.getForward()).run();
    narrowEdges(symbols);
    for (auto module : getOperation().getOps<dist::ModuleOp>())
      if (isNarrow(module))
        returnNarrow(module);
  }

  /// What is widened only to be returned is returned as it is, unless others
  /// take it, which have their say in its type.
  void returnNarrow(dist::ModuleOp module) {
    func::FuncOp forward = module.getForward();
    llvm::SmallDenseSet<unsigned> taken;
    for (auto edge : getOperation().getOps<dist::EdgeOp>())
      if (edge.getSource() == module.getSymName())
        taken.insert(*dist::ModuleOp::findResult(forward, edge.getOutput()));
    for (OpOperand &operand :
         forward.front().getTerminator()->getOpOperands()) {
      auto cast = operand.get().getDefiningOp<nn::CastOp>();
      if (cast && nn::isNarrow(cast.getInput()) && isWide(cast) &&
          nn::getRank(cast) > 0 && !taken.contains(operand.getOperandNumber()))
        operand.set(cast.getInput());
    }
    setType(forward);
  }

  static bool isNarrow(dist::ModuleOp module) {
    return module.isBF16() && !module.getWholeBatch();
  }

  /// An output is narrow if all that take it are: they share its type.
  void narrowEdges(SymbolTable &symbols) {
    llvm::MapVector<std::pair<StringRef, StringRef>, SmallVector<dist::EdgeOp>>
        edgesOf;
    for (auto edge : getOperation().getOps<dist::EdgeOp>())
      edgesOf[{edge.getSource(), edge.getOutput()}].push_back(edge);
    for (auto &[output, edges] : edgesOf) {
      auto source = symbols.lookup<dist::ModuleOp>(output.first);
      auto target = [&](dist::EdgeOp edge) {
        return symbols.lookup<dist::ModuleOp>(edge.getTarget());
      };
      if (!isNarrow(source) || !llvm::all_of(edges, [&](dist::EdgeOp edge) {
            return isNarrow(target(edge));
          }))
        continue;
      if (narrowOutput(source, output.second))
        for (dist::EdgeOp edge : edges)
          narrowInput(target(edge), edge.getInput());
    }
  }

  bool narrowOutput(dist::ModuleOp module, StringRef name) {
    func::FuncOp forward = module.getForward();
    unsigned i = *dist::ModuleOp::findResult(forward, name);
    Operation *end = forward.front().getTerminator();
    Value wide = end->getOperand(i);
    if (!isWide(wide))
      return false;
    OpBuilder b(end);
    auto cast = wide.getDefiningOp<nn::CastOp>();
    end->setOperand(i, cast && nn::isNarrow(cast.getInput())
                           ? cast.getInput()
                           : castTo(b, wide, b.getBF16Type()));
    setType(forward);
    return true;
  }

  void narrowInput(dist::ModuleOp module, StringRef name) {
    func::FuncOp forward = module.getForward();
    std::optional<unsigned> i = dist::ModuleOp::findArgument(forward, name);
    if (!i)
      return;
    BlockArgument argument = forward.getArgument(*i);
    Type wide = nn::elementOf(argument);
    OpBuilder b = OpBuilder::atBlockBegin(&forward.front());
    argument.setType(nn::withElementType(argument.getType(), b.getBF16Type()));
    Value widened = castTo(b, argument, wide);
    argument.replaceAllUsesExcept(widened, widened.getDefiningOp());
    setType(forward);
  }

  static void setType(func::FuncOp function) {
    Block &body = function.front();
    function.setFunctionType(
        FunctionType::get(function.getContext(), body.getArgumentTypes(),
                          body.getTerminator()->getOperandTypes()));
  }
};

} // namespace
} // namespace dt::precision
