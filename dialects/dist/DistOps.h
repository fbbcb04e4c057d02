//===- DistOps.h - The dist dialect -----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Modules, edges, losses, optimizer, batch and data of a training program.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_DIST_DISTOPS_H
#define DIALECTS_DIST_DISTOPS_H

#include "dialects/nn/DimExpr.h"
#include "dialects/nn/NNNames.h"
#include "dialects/nn/NNOps.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"

#include "dialects/dist/RuntimeEnums.h"

#include "dialects/dist/DistDialect.h.inc"
#include "dialects/dist/DistEnums.h.inc"

namespace dt::dist {

/// A dim of a tensor that is [outer][over][chunk] as a whole; a rank of the
/// axis has [outer][chunk].
struct DimCut {
  uint64_t dim, chunk;
};

/// Of a whole tensor that is cut so: the rows in which a rank has a block each,
/// `part` being all of them.
nn::DimExpr getBlockRows(const nn::Shape &part, DimCut cut);

/// The axis, and the type of the result by the cuts.
llvm::LogicalResult verifyCollective(mlir::Operation *op);
/// How a further axis may cut a collective that takes or gives one cut at most.
nn::ShardingRule getCollectiveRule(mlir::Operation *op);

/// Whether it has ranks, each once and none below 0.
bool areRanks(mlir::DenseI64ArrayAttr list);

} // namespace dt::dist

#include "dialects/dist/DistInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/dist/DistOps.h.inc"

namespace dt::dist {

/// The kind of item that always exists and is not declared.
inline constexpr llvm::StringLiteral kSample = "sample";
// Discardable attributes of the dialect, of the shard phase
// (docs/sharding.md).
/// On nn.parameter, read by the phase: "rows" (its first dim is cut, if it can
/// be) or "whole".
inline constexpr llvm::StringLiteral kCutHintAttr = "dist.cut_hint";
/// On nn.parameter, arguments and results: #dist.layout.
inline constexpr llvm::StringLiteral kLayoutAttr = "dist.layout";
/// On nn.parameter: axes (#dist.cut) over which gradients are partial sums;
/// their dim is rt::kTokenAxis where ranks have other tokens, else 0.
inline constexpr llvm::StringLiteral kPartialGradientAttr =
    "dist.partial_gradient";
/// On a result of @forward in a batch that is cut (unit): rows of parts put
/// together are not those of the whole, so --save-outputs leaves it out.
inline constexpr llvm::StringLiteral kUnjoinedAttr = "dist.unjoined";

/// What a module's attributes say, with the values of absent ones.
struct Placement {
  llvm::StringRef unit;
  int64_t stage = 0, dp = 1, sub = 1, zero = 0;
  /// Ranks of a replica: tensor-parallel times context-parallel ones, times
  /// joined replicas, rank (j, c, t) at (j * cp + c) * tp + t.
  int64_t group = 1;
  llvm::SmallVector<int64_t> ranks{0}, speeds;

  explicit Placement(ModuleOp module);
  /// Parts that a microbatch is cut into.
  int64_t getNumParts() const { return dp * sub; }
};

/// Whether parts of a module may have rows that are no item's, as a dim that
/// adds up a measure has a `multiple` (docs/sizes.md).
bool hasPadding(ModuleOp module);

/// The functions that a dist.forward names; null where there is none.
template <typename FuncT> struct FunctionSet {
  FuncT forward, backward, input, weight;

  /// Those that compute gradients.
  llvm::SmallVector<FuncT, 2> getBackwards() const {
    llvm::SmallVector<FuncT, 2> found;
    for (FuncT function : {backward, input, weight})
      if (function)
        found.push_back(function);
    return found;
  }
};
using Functions = FunctionSet<mlir::func::FuncOp>;

/// The dist.forward of the module's own functions, of those that one is among.
/// Null: there is none.
ForwardOp getLink(ModuleOp module);
ForwardOp getLink(mlir::func::FuncOp function);
template <typename FuncT> FunctionSet<FuncT> getFunctions(ForwardOp link) {
  auto find = [&](mlir::FlatSymbolRefAttr name) {
    return name ? link->template getParentOfType<ModuleOp>()
                      .template lookupSymbol<FuncT>(name.getAttr())
                : FuncT();
  };
  return {find(link.getForwardAttr()), find(link.getBackwardAttr()),
          find(link.getInputAttr()), find(link.getWeightAttr())};
}
/// A module's own functions. Without a dist.forward: @forward.
template <typename FuncT = mlir::func::FuncOp>
FunctionSet<FuncT> getFunctions(ModuleOp module) {
  if (ForwardOp link = getLink(module))
    return getFunctions<FuncT>(link);
  return {module.lookupSymbol<FuncT>("forward"), {}, {}, {}};
}
/// Whether a dist.forward is all that names the function.
bool isUnused(mlir::func::FuncOp function);
/// Takes the function out of its dist.forward, which goes with its forward one.
void unlink(mlir::func::FuncOp function);

/// The most items of `kind` that one sample has; 1 for "sample", nothing for a
/// kind that is not declared.
std::optional<int64_t> getItemMax(mlir::ModuleOp program, llvm::StringRef kind);
/// That measure of a kind of item, or null.
MeasureOp getMeasure(mlir::ModuleOp program, llvm::StringRef kind,
                     llvm::StringRef name);
/// The most that one sample adds to a dim; nothing if its kind is unknown.
std::optional<int64_t> getMostOfSample(mlir::ModuleOp program, nn::DimOp dim);
/// The first axis of a shape that is not one number 1: where an edge or a cut
/// between stages has its items. The rank, if all are.
int64_t getRowAxis(const nn::Shape &shape);
/// The only op of that kind in the program, or null.
template <typename OpT> OpT getOnly(mlir::ModuleOp program) {
  auto ops = program.getOps<OpT>();
  return ops.empty() ? OpT() : *ops.begin();
}
/// An optimizer's settings in its own order; what `given` (a dictionary, may be
/// null) does not have has the value that runtime/Optimizers.h says.
llvm::SmallVector<double> getAllSettings(rt::OptimizerKind kind,
                                         mlir::DictionaryAttr given);
/// "beta1 must be in [0, 1)": what is wrong with settings; empty: nothing.
std::string checkSettings(rt::OptimizerKind kind, mlir::DictionaryAttr given);
/// Numbers that the program's optimizer keeps of a parameter: moments, an
/// average; 0 without an optimizer and of what does not train.
double getStateFloats(mlir::ModuleOp program, nn::ParameterOp parameter);
/// Microbatches of a step; 1 without dist.batch.
int64_t getNumMicrobatches(mlir::ModuleOp program);

/// @module::@parameter, as dist.tie names it.
mlir::SymbolRefAttr getParameterPath(ModuleOp module,
                                     llvm::StringRef parameter);

/// tensor<f32> with the value of a size expression at run time.
mlir::Value buildElementCount(mlir::OpBuilder &builder, mlir::Location loc,
                              const nn::DimExpr &count);

/// Of a collective, `over` ranks with a `stride`.
template <typename OpT> mlir::LogicalResult verifyAxis(OpT op) {
  if (static_cast<int64_t>(op.getOver()) < 1 ||
      static_cast<int64_t>(op.getStride()) < 1)
    return op->emitOpError("needs ranks and a stride of at least 1");
  return mlir::success();
}

} // namespace dt::dist

#endif // DIALECTS_DIST_DISTOPS_H
