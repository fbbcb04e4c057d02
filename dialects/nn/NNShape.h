//===- NNShape.h - Shapes with symbolic dims --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Reads and makes ranked tensor types whose `?` dims have expressions.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNSHAPE_H
#define DIALECTS_NN_NNSHAPE_H

#include "dialects/nn/DimExpr.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include <utility>

namespace dt::nn {

using Shape = llvm::SmallVector<DimExpr, 4>;

/// Dims of a ranked tensor, numbers and expressions alike.
Shape getShape(mlir::Type tensor);
inline Shape getShape(mlir::Value v) { return getShape(v.getType()); }
inline int64_t getRank(mlir::Value v) {
  return mlir::cast<mlir::RankedTensorType>(v.getType()).getRank();
}

/// Whether a size is below another whatever the symbol is from 1 on.
bool isSmaller(const DimExpr &size, const DimExpr &other);

/// tensor<…, #nn.dims<…>> with these dims.
mlir::RankedTensorType makeTensorType(llvm::ArrayRef<DimExpr> shape,
                                      mlir::Type elementType);
/// The type with another element type / other dims.
mlir::RankedTensorType withElementType(mlir::Type tensor, mlir::Type element);

DimExpr getNumElements(llvm::ArrayRef<DimExpr> shape);
/// Bytes of a tensor (bool is one byte).
DimExpr getNumBytes(mlir::Type tensor);
/// Bytes of all operands and results of an op, once each.
DimExpr operandAndResultBytes(mlir::Operation *op);
int64_t getElementBytes(mlir::Type element);

/// NumPy broadcasting; nothing where two dims are neither equal nor 1.
std::optional<Shape> broadcastShapes(llvm::ArrayRef<Shape> shapes);

/// How a reshape splits and merges dims: groups of (input dims, result dims)
/// with equal products, as fine as possible, in order. Nothing when sizes do
/// not pair up.
using ReassociationGroup =
    std::pair<llvm::SmallVector<int64_t, 2>, llvm::SmallVector<int64_t, 2>>;
std::optional<llvm::SmallVector<ReassociationGroup>>
getReassociation(llvm::ArrayRef<DimExpr> from, llvm::ArrayRef<DimExpr> to);

/// "2x16*images" for messages.
/// The value of which `v` has the elements, in the same order.
mlir::Value throughReshapes(mlir::Value v);

std::string shapeToString(llvm::ArrayRef<DimExpr> shape);

} // namespace dt::nn

#endif // DIALECTS_NN_NNSHAPE_H
