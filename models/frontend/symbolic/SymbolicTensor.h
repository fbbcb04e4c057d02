//===- SymbolicTensor.h - Tensors as functions of their indices -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A tensor whose element is an expression of its indices and of the module's
// size symbols, with the operators that exporters build shapes, positions and
// masks from. Nothing of the tensor's own size is stored, except for literals
// of at most 64 Ki elements. Every operator may answer "not representable":
// its caller then makes a tensor of the operands.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_SYMBOLIC_SYMBOLICTENSOR_H
#define MODELS_FRONTEND_SYMBOLIC_SYMBOLICTENSOR_H

#include "models/frontend/symbolic/Expr.h"

#include "llvm/ADT/SmallVector.h"

namespace dt::symbolic {

/// The largest array that is ever evaluated or stored.
constexpr int64_t maxLiteral = 64 * 1024;

enum class Element { Bool, UInt8, Int8, Int32, Int64, F32, F64 };
Type typeOf(Element element);

using Shape = llvm::SmallVector<DimExpr, 4>;

struct SymbolicTensor {
  Shape shape;
  Element element = Element::Int64;
  Expr value;

  int64_t rank() const { return shape.size(); }
  /// The number of elements, where it is one.
  std::optional<int64_t> numElements() const;
};
using Result = std::optional<SymbolicTensor>;

//===----------------------------------------------------------------------===//
// Making
//===----------------------------------------------------------------------===//

SymbolicTensor scalar(Element element, Expr value);
/// `value` may use the indices; it is simplified for their ranges.
Result fromFunction(Shape shape, Element element, Expr value);
/// 1-D Int64 tensor of sizes.
SymbolicTensor fromDims(llvm::ArrayRef<DimExpr> dims);
/// Elements in row-major order. Ranges and triangles are recognised, also in
/// arrays above maxLiteral; other arrays above it are not representable.
Result literal(llvm::ArrayRef<int64_t> shape, Element element, TableData data);
/// start, start + delta, ... before limit (scalars). `least`: of the symbols.
Result range(const SymbolicTensor &start, const SymbolicTensor &limit,
             const SymbolicTensor &delta, const Least &least = nullptr);

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// The elements of a scalar or 1-D tensor of known, small size.
std::optional<llvm::SmallVector<Expr>> elements(const SymbolicTensor &t);
std::optional<Shape> asDims(const SymbolicTensor &t);
std::optional<llvm::SmallVector<int64_t>> asInts(const SymbolicTensor &t);
std::optional<llvm::SmallVector<double>> asFloats(const SymbolicTensor &t);
/// Element i of a literal array.
Expr elementOf(const TableData &data, size_t i);
/// The dims of a shape that has no symbols.
std::vector<int64_t> staticShape(const Shape &shape);
/// All elements, when there are at most maxLiteral and no symbols.
std::optional<TableData> evaluateAll(const SymbolicTensor &t);

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

enum class Binary {
  Add,
  Sub,
  Mul,
  Div,
  Mod, ///< sign of the divisor
  FMod,
  Pow,
  Min,
  Max,
  Equal,
  Less,
  LessEqual,
  And,
  Or,
  Xor
};
/// NumPy broadcasting; operands of one element type.
Result binary(Binary op, const SymbolicTensor &a, const SymbolicTensor &b);
Result negate(const SymbolicTensor &t);
Result logicalNot(const SymbolicTensor &t);
/// A function of numbers, for constants and literals.
Result mapFloat(const SymbolicTensor &t,
                llvm::function_ref<double(double)> function);
Result where(const SymbolicTensor &condition, const SymbolicTensor &yes,
             const SymbolicTensor &no);
Result cast(const SymbolicTensor &t, Element to);

//===----------------------------------------------------------------------===//
// Shape and indices
//===----------------------------------------------------------------------===//

Result transpose(const SymbolicTensor &t, llvm::ArrayRef<int64_t> permutation);
/// Row-major order kept; the caller has checked the number of elements.
Result reshape(const SymbolicTensor &t, Shape shape);
/// To `shape`, which t broadcasts to.
Result broadcast(const SymbolicTensor &t, const Shape &shape);
/// Element start + i * step along each axis.
Result slice(const SymbolicTensor &t, llvm::ArrayRef<Expr> starts,
             llvm::ArrayRef<int64_t> steps, Shape shape);
Result concat(llvm::ArrayRef<SymbolicTensor> inputs, int64_t axis);
Result tile(const SymbolicTensor &t, llvm::ArrayRef<DimExpr> repeats);
/// ONNX Gather / GatherElements / GatherND.
Result gather(const SymbolicTensor &t, const SymbolicTensor &indices,
              int64_t axis);
Result gatherElements(const SymbolicTensor &t, const SymbolicTensor &indices,
                      int64_t axis);
Result gatherNd(const SymbolicTensor &t, const SymbolicTensor &indices,
                int64_t batchDims);
/// ONNX NonZero, [rank, places]. The mask may depend on last axes of known size
/// only; those before them may have any.
Result nonZero(const SymbolicTensor &t);
Result cumsum(const SymbolicTensor &t, int64_t axis, bool exclusive,
              bool reverse);
enum class Reduction { Sum, Max, Min, Prod };
Result reduce(Reduction kind, const SymbolicTensor &t,
              llvm::ArrayRef<int64_t> axes, bool keepdims);

} // namespace dt::symbolic

#endif // MODELS_FRONTEND_SYMBOLIC_SYMBOLICTENSOR_H
