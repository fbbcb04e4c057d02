//===- RTAlign.h - What addresses are multiples of --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A target that loads several elements at once must know that their address is
// a multiple of all their bytes. It follows from where buffers stand in regions
// that begin at multiples of 64 (runtime/Program.h), and from what functions
// are called with.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTALIGN_H
#define DIALECTS_RT_RTALIGN_H

#include "dialects/rt/RTOps.h"

namespace dt::rt {

/// Powers of two, 64 at most.
constexpr int64_t kMostAlignment = 64;
/// The largest that divides the size, whatever its symbols are.
int64_t getAlignment(const nn::DimExpr &size);

/// Answers for the buffers of one module, whose memory is planned. Of a
/// function's argument it is what all its entries and callers hand over; 1 if
/// there are none.
class BufferAlignment {
public:
  explicit BufferAlignment(ModuleOp module);

  /// In bytes.
  int64_t get(mlir::Value buffer);

private:
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> handed;
  llvm::DenseMap<mlir::Value, int64_t> arguments;
  ModuleOp module;
};

} // namespace dt::rt

#endif // DIALECTS_RT_RTALIGN_H
