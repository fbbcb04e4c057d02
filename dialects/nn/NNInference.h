//===- NNInference.h - What result types are made of ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a result looks like follows from the operands' symbolic shapes; an
// impossible combination is reported at the op, with both shapes.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNINFERENCE_H
#define DIALECTS_NN_NNINFERENCE_H

#include "dialects/nn/NNOps.h"

namespace dt::nn {

using MaybeLoc = std::optional<mlir::Location>;
using Types = llvm::SmallVectorImpl<mlir::Type>;

llvm::LogicalResult fail(MaybeLoc loc, const llvm::Twine &what);

mlir::Type elementOf(mlir::Value tensor);
/// What scalar code has for an element: unsigned ones are signless integers,
/// 16-bit floats are f32.
mlir::Type scalarOf(mlir::Type element);
mlir::Type scalarOf(mlir::Value tensor);

/// A float of 16 bits: storage only, scalar code never has one.
bool isNarrow(mlir::Type elementOrTensor);
inline bool isNarrow(mlir::Value tensor) { return isNarrow(tensor.getType()); }
/// The narrow value that a cast widens to `v`, a float32 one, or null.
mlir::Value widened(mlir::Value v);
/// Whether an op multiplies narrow operands where precision says so: a product,
/// a convolution, attention.
bool isComputeHeavy(mlir::Operation *op);
/// Gives the op's first result this element type, with the attribute `stored`
/// where inference says another one. The op must compute in f32 inside
/// (PrecisionRule::sumsInFull).
void setStored(mlir::Operation *op, mlir::Type element);

/// An axis of the tensor, counted from its begin.
llvm::LogicalResult checkAxis(MaybeLoc loc, int64_t axis, mlir::Value tensor);
/// But that one may be a narrow float where the other one is wide.
llvm::LogicalResult sameTypes(MaybeLoc loc, mlir::Value a, mlir::Value b);
/// The last two operands have one element type.
llvm::LogicalResult sameElements(MaybeLoc loc, mlir::ValueRange operands);
/// The same for a verifier, of an operand and a result.
llvm::LogicalResult verifySameElement(mlir::Operation *op, mlir::Value a,
                                      mlir::Value b);

/// One tensor of the operands' common shape.
llvm::LogicalResult inferBroadcast(MaybeLoc loc, mlir::ValueRange operands,
                                   mlir::Type element, Types &out);

// Result types by operands alone (NN_InferTypesOf in NNBase.td).
/// The first operand's type.
llvm::LogicalResult typeOfFirst(MaybeLoc loc, mlir::ValueRange operands,
                                Types &out);
/// The type that both operands have.
llvm::LogicalResult typeOfBoth(MaybeLoc loc, mlir::ValueRange operands,
                               Types &out);
/// Bools of the first operand's shape.
llvm::LogicalResult boolsOfFirst(MaybeLoc loc, mlir::ValueRange operands,
                                 Types &out);
/// The operands' common shape, with the first one's elements.
llvm::LogicalResult broadcastOfFirst(MaybeLoc loc, mlir::ValueRange operands,
                                     Types &out);
/// The operands' common shape, with the elements that the last two have.
llvm::LogicalResult broadcastOfBoth(MaybeLoc loc, mlir::ValueRange operands,
                                    Types &out);

} // namespace dt::nn

#endif // DIALECTS_NN_NNINFERENCE_H
