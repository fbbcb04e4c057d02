//===- FunctionLowering.h - One function from nn to rt ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A function is translated op by op, in order, into destination-passing style.
// Where a result goes is known before the op that makes it is lowered: straight
// into the caller's buffer or a parameter's gradient when the value ends there,
// else into a local. That knowledge is why this is a translation and not a set
// of dialect conversion patterns, whose materialisations would be copies that a
// later pass had to prove away.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_FUNCTIONLOWERING_H
#define PASSES_LOWER_FUNCTIONLOWERING_H

#include "dialects/nn/NNOps.h"
#include "passes/lower/KernelBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dt::lower {

class FunctionLowering;

/// Which indices are right: 0 to extent - 1, with `wrap` -extent to -1 too, and
/// what is ignored. `offset`, `stride`: of elements that are tuples.
struct IndexRange {
  llvm::StringRef what; ///< is counted: "rows", "classes"
  DimExpr extent;
  bool wrap = true;
  std::optional<int64_t> ignored = std::nullopt;
  int64_t offset = 0, stride = 1;
  nn::BlockAttr block = nullptr; ///< of the op

  static IndexRange ofBlock(nn::BlockAttr block);
};

class FunctionLowering {
public:
  explicit FunctionLowering(mlir::func::FuncOp source)
      : source(source), b(source.getContext()) {}

  /// Replaces the function by an rt.func of the same name.
  llvm::LogicalResult run();

  // For lowerings.
  mlir::OpBuilder &builder() { return b; }
  /// Where an operand is; null for an absent one.
  mlir::Value get(mlir::Value tensor);
  /// Where an operand is of an op that reads columns (nn::isReadInPlace).
  Source read(mlir::Value tensor);
  /// Whether it has a buffer: its op stands before, or went with another one.
  bool isLowered(mlir::Value tensor) const { return buffers.contains(tensor); }
  /// A buffer for a result, to be written fully.
  Destination destination(mlir::Value result);
  /// The same for lowerings that can also add to the gradient in which the
  /// result ends. Must then add, see Destination.
  Destination accumulating(mlir::Value result);
  /// For lowerings that can write columns (nn::canWriteColumns): those of a
  /// concatenation that the result is, if it is that and nothing else.
  std::optional<Destination> columns(mlir::Value result);
  /// Whether it has been written to its columns of a concatenation.
  bool isInColumns(mlir::Value tensor) const {
    return inColumns.contains(tensor);
  }
  /// Where a concatenation is, of which parts may have been written.
  Destination wholeOf(nn::ConcatOp concat);
  /// For lowerings that read what they have stored in a destination and go on
  /// with it: where its elements are narrow, a buffer of wider ones, which is
  /// rounded (or added) to it behind the op.
  Destination summing(const Destination &destination);
  /// The result is (part of) an existing buffer, or a copy of it with elements
  /// of the result's type.
  void alias(mlir::Value result, mlir::Value buffer);
  /// A local that no value of the source stands for.
  mlir::Value temporary(mlir::Type element, llvm::ArrayRef<DimExpr> shape,
                        llvm::StringRef name, mlir::Location loc);
  /// The buffer with other dims (a view unless they are equal).
  mlir::Value view(mlir::Value buffer, llvm::ArrayRef<DimExpr> shape,
                   mlir::Location loc, const DimExpr &offset = 0);
  /// Copies all elements, as those of the other buffer.
  void copy(mlir::Value from, mlir::Value to, mlir::Location loc);
  /// Whether the value's only use adds it to a gradient.
  bool endsInGradient(mlir::Value value);
  /// The operand's buffer if an op may overwrite it with its result: it is a
  /// local that nobody else reads, and the result does not end elsewhere. Else
  /// null.
  mlir::Value takeOver(mlir::Value operand, mlir::Value result);
  /// Has indices that come from data reported if they are out of range, at what
  /// the program does next. The op that uses them must still clamp.
  void checkIndices(mlir::Operation *op, mlir::Value indices,
                    const IndexRange &range);
  /// The same of places that rows fill in order, where they are not as many as
  /// the rows.
  void checkPlaces(nn::GatherOp op);

private:
  /// Where a value ends: an argument of the rt.func or a gradient.
  struct Sink {
    mlir::Value buffer; ///< with the value's dims
    bool add;
  };

  mlir::FunctionType makeType();
  void declareArguments();
  /// The argument that stands for a result.
  mlir::Value outArgument(unsigned result);
  void findSinks();
  std::optional<Sink> sinkOf(mlir::Value value);
  std::optional<Sink> sinkOfUse(mlir::OpOperand &use);
  mlir::Value gradient(nn::AccumulateOp op);
  llvm::LogicalResult lower(mlir::Operation *op);
  llvm::LogicalResult lowerOne(mlir::Operation *op);
  llvm::LogicalResult lowerCall(mlir::func::CallOp call);
  void lowerAccumulate(nn::AccumulateOp op);
  void lowerReturn(mlir::func::ReturnOp op);
  void addInto(mlir::Value from, mlir::Value to, mlir::Location loc);
  void convert(mlir::Value from, const Destination &to, mlir::Location loc);

  mlir::func::FuncOp source;
  mlir::OpBuilder b;
  rt::FuncOp target;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  llvm::DenseMap<mlir::Value, Sink> sinks;
  llvm::DenseSet<mlir::Value> inColumns;
  /// By parameter and those beside it.
  llvm::DenseMap<std::pair<mlir::StringAttr, mlir::ArrayAttr>, mlir::Value>
      gradients;
  /// Of the op that is being lowered: what `summing` gave, and where it ends.
  llvm::SmallVector<std::pair<mlir::Value, Destination>> sums;
};

/// An elementwise op that nobody fused: a kernel of its own.
llvm::LogicalResult lowerScalarOp(mlir::Operation *op, FunctionLowering &f);

/// A readable name for what an op makes: its mnemonic, after the location's
/// name where that is one.
std::string describe(mlir::Operation *op);

} // namespace dt::lower

#include "passes/lower/LowerInterfaces.h.inc"

namespace dt::lower {

/// Makes `lower` the lowering of OpTy.
template <typename OpTy, llvm::LogicalResult (*lower)(OpTy, FunctionLowering &)>
struct LoweringModel
    : LoweringOpInterface::ExternalModel<LoweringModel<OpTy, lower>, OpTy> {
  llvm::LogicalResult lowerToRT(mlir::Operation *op,
                                FunctionLowering &f) const {
    return lower(llvm::cast<OpTy>(op), f);
  }
};
template <typename OpTy, llvm::LogicalResult (*lower)(OpTy, FunctionLowering &)>
void attachLowering(mlir::MLIRContext *context) {
  OpTy::template attachInterface<LoweringModel<OpTy, lower>>(*context);
}

// One function a family, all in Lower*.cpp: attach the lowerings of its ops.
void attachCollectiveLowerings(mlir::MLIRContext *context);
void attachElementwiseLowerings(mlir::MLIRContext *context);
void attachExpertLowerings(mlir::MLIRContext *context);
void attachIndexingLowerings(mlir::MLIRContext *context);
void attachMovementLowerings(mlir::MLIRContext *context);
void attachNormLowerings(mlir::MLIRContext *context);
void attachPoolLowerings(mlir::MLIRContext *context);
void attachProductLowerings(mlir::MLIRContext *context);
void attachReduceLowerings(mlir::MLIRContext *context);
void attachSoftmaxLowerings(mlir::MLIRContext *context);
void attachTopKLowerings(mlir::MLIRContext *context);

} // namespace dt::lower

#endif // PASSES_LOWER_FUNCTIONLOWERING_H
