//===- RTBytes.h - Which buffers share bytes --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Two buffers may be the same memory for several reasons: one is a view of the
// other, both are views of a third, memory planning gave two locals one place,
// or two parameters of a module are tied. So values are compared by the bytes
// that they stand for. What may be changed in place, what the verifier accepts
// and what C++ may call __restrict all ask here.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTBYTES_H
#define DIALECTS_RT_RTBYTES_H

#include "dialects/rt/RTOps.h"

namespace dt::rt {

/// The buffer that a chain of views is a part of.
mlir::Value getViewedBuffer(mlir::Value buffer);

/// Answers for the buffers of one rt.func. Arguments of which one is written
/// share nothing: that is for the callers to keep (and for the verifier of
/// calls and entries to check).
class BufferBytes {
public:
  /// Bounds of symbols are those of the module around `function`.
  explicit BufferBytes(FuncOp function);

  /// Whether a byte of `a` may be one of `b`, for some sizes.
  bool mayShare(mlir::Value a, mlir::Value b) const;
  /// Whether both are the same bytes, for all sizes.
  bool areEqual(mlir::Value a, mlir::Value b) const;

  /// The largest value of a size; nothing if a symbol of it has no bound.
  std::optional<int64_t> getMax(const nn::DimExpr &size) const;

private:
  void findJoined(mlir::Region &module);
  /// Memory with a name of its own. Scratch is one such memory: locals that
  /// have places in it are ranges of it, others are memories by themselves.
  struct Range {
    enum Kind { Local, Scratch, Argument, Parameter, Gradient, Constant } kind;
    const void *memory;     ///< a value, or the symbol of a parameter
    nn::DimExpr begin, end; ///< bytes
  };
  Range getRange(mlir::Value buffer) const;
  const nn::DimExpr &getNumBytes(BufferType type) const;
  /// Whether the size is at least 0 whatever the symbols are.
  bool isNeverNegative(const nn::DimExpr &size) const;

  FuncOp function;
  llvm::StringMap<int64_t> bounds;
  /// Names of tied parameters stand for the first of them.
  llvm::DenseMap<mlir::StringAttr, mlir::StringAttr> owners;
  /// Of parameters that some op of the module joins: the first of them, and the
  /// elements of those in between.
  llvm::DenseMap<mlir::StringAttr, std::pair<mlir::StringAttr, nn::DimExpr>>
      joined;
  mutable llvm::DenseMap<mlir::Type, nn::DimExpr> numBytes; ///< known ones
};

/// Which operands an op writes; all others it may read.
class Writes {
public:
  explicit Writes(mlir::Operation *op);
  bool contains(unsigned operand) const { return written.contains(operand); }

private:
  void setCall(CallOp call);
  llvm::SmallDenseSet<unsigned> written;
};

/// Whether the kernel touches buffer `i` only in its outermost block, at the
/// kernel's own indices and with its bounds as dims: a point has one element,
/// and no other point has it.
bool isPointwise(KernelOp kernel, unsigned i);

/// Whether buffer `written` may stand where buffer `read` stands although both
/// are different values: a point reads its element of `read` before it writes
/// that of `written`, and touches no other.
bool readsBeforeWriting(KernelOp kernel, unsigned read, unsigned written);

/// Each byte that the op writes is read through its other operands at most
/// where and when the op allows that; says otherwise on the op. Places must be
/// planned.
llvm::LogicalResult verifySharedBytes(mlir::Operation *op,
                                      const BufferBytes &bytes);

} // namespace dt::rt

#endif // DIALECTS_RT_RTBYTES_H
