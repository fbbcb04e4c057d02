//===- LossBuilder.h - What kinds of losses are made with -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_RECIPE_LOSSES_LOSSBUILDER_H
#define MODELS_FRONTEND_RECIPE_LOSSES_LOSSBUILDER_H

#include "models/frontend/recipe/Program.h"

#include "dialects/nn/NNOps.h"

namespace dt::models {

class LossBuilder {
public:
  LossBuilder(mlir::Location loc, dist::ModuleOp module, const LossEntry &loss);

  /// Adds the loss to the module.
  llvm::LogicalResult build();

  // For rules: builds at the end of @forward, into `b`.
  template <typename Op, typename... Args> Op make(Args &&...args) {
    return Op::create(b, loc, std::forward<Args>(args)...);
  }
  /// The input that the recipe names as labels or target, of this type; null
  /// with an error if the module has another.
  mlir::Value getTarget(mlir::RankedTensorType type);
  /// The input that says which rows count, of the same kind; null with an
  /// error, or where all do.
  mlir::Value getChooser(mlir::RankedTensorType type);
  /// The sum of all elements, f32.
  mlir::Value sum(mlir::OpBuilder &at, mlir::Value value);
  mlir::Value sum(mlir::Value value) { return sum(b, value); }
  /// A scalar of `like`'s element type.
  mlir::Value splat(mlir::OpBuilder &at, mlir::Type like, double value);
  mlir::Value splat(mlir::Type like, double value) {
    return splat(b, like, value);
  }
  /// Elements (i, j) -> i == j ? onDiagonal : elsewhere.
  mlir::Value diagonal(mlir::Type type, double onDiagonal, double elsewhere);
  /// 0, 1, …, rows - 1.
  mlir::Value rowNumbers(const nn::DimExpr &rows);
  /// Rows of the target that are no item's have that number, which adds nothing
  /// to the loss (docs/sizes.md).
  void padTarget(int64_t value);
  /// The denominator is the number of elements of that type.
  void countElements(mlir::Type type);
  /// The denominator is what `count` makes of the target, and of the chooser
  /// behind it if there is one, at `at`.
  void countTargets(mlir::Value target, mlir::Value chooser,
                    llvm::function_ref<mlir::Value(mlir::OpBuilder &at,
                                                   mlir::ValueRange given)>
                        count);

  mlir::OpBuilder b;
  mlir::Location loc;
  const LossEntry &loss;

private:
  mlir::OpBuilder startDenominator(mlir::TypeRange inputs,
                                   llvm::ArrayRef<llvm::StringRef> names);

  dist::ModuleOp module;
  mlir::func::FuncOp forward, denominator;
  bool ignoresPadding = false;
};

} // namespace dt::models

#endif // MODELS_FRONTEND_RECIPE_LOSSES_LOSSBUILDER_H
