//===- KernelBuilder.h - Writes the body of an rt.kernel --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Keeps lowerings short: buffers are captured when they are first used, loops
// are given as dims and a function, and arithmetic picks the op by the type.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_KERNELBUILDER_H
#define PASSES_LOWER_KERNELBUILDER_H

#include "dialects/rt/RTOps.h"

namespace dt::lower {

using nn::DimExpr;
using nn::Shape;

/// Columns of rows of `pitch` elements: a value's dims from `axis` on are
/// `offset` and following elements of a row.
struct RowColumns {
  unsigned axis;
  DimExpr pitch, offset;
};

/// Where an op writes: with `add`, the result is added to what is there; with
/// `columns`, the buffer is the whole that the result is columns of.
struct Destination {
  mlir::Value buffer;
  bool add = false;
  std::optional<RowColumns> columns = std::nullopt;
};

/// Where an op reads a tensor: with `columns`, the buffer is the whole that the
/// tensor is columns of.
struct Source {
  mlir::Value buffer;
  std::optional<RowColumns> columns = std::nullopt;
};

class KernelBuilder {
public:
  /// Inserts the kernel at `outer`; its points are those below `bounds`.
  KernelBuilder(mlir::OpBuilder &outer, mlir::Location loc,
                llvm::StringRef name, llvm::ArrayRef<DimExpr> bounds);

  mlir::OpBuilder b;
  mlir::Location loc;
  rt::KernelOp op;

  mlir::Value index(unsigned i) { return op.getIndices()[i]; }
  llvm::SmallVector<mlir::Value> indices();
  /// The buffer seen inside with these dims.
  mlir::Value use(mlir::Value buffer, llvm::ArrayRef<DimExpr> shape);

  /// What loading from a buffer gives: the type to compute in.
  static mlir::Type scalarOf(mlir::Value array);
  static mlir::Type scalarOf(const Source &s) { return scalarOf(s.buffer); }
  /// Whether its elements are rounded when they are stored: what is read again
  /// is not what was computed.
  static bool isNarrow(mlir::Value array);
  mlir::Value load(mlir::Value array, mlir::ValueRange at);
  /// Element `at` of a tensor with these dims; the axis of columns is one of
  /// them.
  mlir::Value load(const Source &s, llvm::ArrayRef<DimExpr> shape,
                   mlir::ValueRange at);
  void store(mlir::Value v, mlir::Value array, mlir::ValueRange at);
  /// Stores or adds, as the destination says.
  void write(const Destination &d, mlir::Value v, mlir::Value array,
             mlir::ValueRange at);

  /// Stores or adds element `at` of a result with these dims; the axis of
  /// columns is one of them.
  void write(const Destination &d, mlir::Value v, llvm::ArrayRef<DimExpr> shape,
             mlir::ValueRange at);

  using Body = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::ValueRange indices, mlir::ValueRange carried)>;
  using Effect = llvm::function_ref<void(mlir::ValueRange indices)>;
  /// Loops over all points of `dims`, the last dim innermost (and as simd,
  /// unless told otherwise), carrying values from one to the next.
  llvm::SmallVector<mlir::Value> fold(llvm::ArrayRef<DimExpr> dims,
                                      mlir::ValueRange init, Body body,
                                      bool simd = true);
  void forEach(llvm::ArrayRef<DimExpr> dims, Effect body, bool simd = true);
  /// The same for one dim whose extent is computed.
  llvm::SmallVector<mlir::Value> fold(mlir::Value extent, mlir::ValueRange init,
                                      Body body, bool simd = true);
  void forEach(mlir::Value extent, Effect body, bool simd = true);

  /// condition ? then() : otherwise(), evaluating one of them.
  mlir::Value either(mlir::Value condition,
                     llvm::function_ref<mlir::Value()> then,
                     llvm::function_ref<mlir::Value()> otherwise);
  /// Effects only; `otherwise` may be null.
  void when(mlir::Value condition, llvm::function_ref<void()> then,
            llvm::function_ref<void()> otherwise = nullptr);

  mlir::Value number(mlir::Type type, double v);
  mlir::Value constant(int64_t v); ///< an index
  mlir::Value size(const DimExpr &e);
  /// A size as a number of this float type.
  mlir::Value sizeAs(mlir::Type type, const DimExpr &e);

  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y); ///< integers: toward zero
  mlir::Value rem(mlir::Value x, mlir::Value y);
  mlir::Value max(mlir::Value x, mlir::Value y); ///< floats: ignores NaN
  mlir::Value min(mlir::Value x, mlir::Value y);
  mlir::Value exp(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value rsqrt(mlir::Value x);
  mlir::Value less(mlir::Value x, mlir::Value y); ///< signed
  mlir::Value equal(mlir::Value x, mlir::Value y);
  mlir::Value both(mlir::Value x, mlir::Value y);
  mlir::Value select(mlir::Value c, mlir::Value x, mlir::Value y);
  mlir::Value toIndex(mlir::Value integer);

  template <typename Op, typename... Args> mlir::Value make(Args &&...args) {
    return Op::create(b, loc, std::forward<Args>(args)...);
  }

private:
  /// The rows that the columns are of, seen inside, and where element `at` of a
  /// tensor with these dims is among them.
  std::pair<mlir::Value, llvm::SmallVector<mlir::Value>>
  locate(mlir::Value buffer, const RowColumns &columns,
         llvm::ArrayRef<DimExpr> shape, mlir::ValueRange at);

  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, mlir::Value> captured;
};

/// Columns that one point of a kernel handles when it runs over rows: enough
/// for a cache line, few enough that narrow matrices still occupy all cores.
struct ColumnBlocks {
  ColumnBlocks(const DimExpr &columns);
  DimExpr columns; ///< in all
  int64_t width;   ///< of a block, the last may have fewer
  DimExpr count;   ///< of blocks
  /// First column and number of columns of block `i`.
  std::pair<mlir::Value, mlir::Value> range(KernelBuilder &k, mlir::Value i);
};

/// [outer, n, inner] with the axis, from the end if negative, in the middle.
Shape aroundAxis(const Shape &shape, int64_t axis);

} // namespace dt::lower

#endif // PASSES_LOWER_KERNELBUILDER_H
