//===- LayerRules.h - Layers priced by rule ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a layer costs by its ops as they stand in the program: gradients by
// factors, work divided over ranks by the kinds of ops. LayerWork.h reads it
// off what will run, where the phases take the layer.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_STAGES_LAYERRULES_H
#define PASSES_STAGES_LAYERRULES_H

#include "passes/planner/describe/Model.h"
#include "passes/stages/ItemSizes.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace dt::stages {

/// Experts of whose weights a product takes or makes one for each of its rows;
/// 0: it is no such product.
int64_t countExperts(mlir::Operation *op);

/// Takes the ops of one layer of the planner, in order, with what they call.
class LayerBuilder {
public:
  LayerBuilder(dist::ModuleOp module, const Sizes &sizes)
      : module(module), sizes(sizes) {}

  void add(mlir::Operation *op);
  /// Bytes of what comes in and of what goes on.
  planner::LayerKind finish(const planner::Linear &input,
                            const planner::Linear &output);
  /// 0: it has no heads.
  int64_t getHeads() const { return heads; }
  int64_t getWidths() const { return widths; }
  /// That the layer reads, with their numbers of elements.
  const llvm::MapVector<mlir::Attribute, double> &getParameters() const {
    return parameters;
  }

private:
  void flush();
  void keep(mlir::Value value, bool vjp);
  bool isCut(mlir::Operation *op);
  void follow(mlir::Operation *op);
  void addParameter(mlir::Value value);
  /// Of one item, its share of what is the part's with it.
  planner::Linear figure(const nn::DimExpr &size) const;
  planner::Linear bytesOf(mlir::Value value) const;
  void addProduct(mlir::Operation *op, const nn::Work &work,
                  const planner::Linear &flops, const planner::Linear &bytes);
  void handOn(mlir::Value result, bool sums);
  void addAttention(mlir::Operation *op, const nn::Work &work,
                    const planner::Linear &flops, const planner::Linear &bytes);
  void addStream(mlir::Operation *op, const nn::Work &work,
                 const planner::Linear &bytes);

  dist::ModuleOp module;
  const Sizes &sizes;
  planner::LayerKind kind;
  int64_t heads = 0, widths = 0;
  llvm::MapVector<mlir::Value, unsigned> kept;
  llvm::DenseSet<mlir::Value> cut; ///< divided by tensor parallelism
  llvm::MapVector<mlir::Attribute, double> parameters;
};

} // namespace dt::stages

#endif // PASSES_STAGES_LAYERRULES_H
