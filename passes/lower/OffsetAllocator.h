//===- OffsetAllocator.h - Offsets of blocks with lifetimes -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_OFFSETALLOCATOR_H
#define PASSES_LOWER_OFFSETALLOCATOR_H

#include "dialects/nn/NNOps.h"
#include "dialects/rt/RTOps.h"

namespace dt::lower {

inline int64_t alignUp(int64_t bytes) {
  return (bytes + rt::kAlignment - 1) / rt::kAlignment * rt::kAlignment;
}

/// Disjoint ranges for blocks that live at once. Largest first, each at the
/// lowest offset that is free during its whole life: within a few percent of
/// the lower bound on the graphs met here, and deterministic.
class OffsetAllocator {
public:
  /// A block in use from `first` to `last`, both included. Returns its number.
  unsigned add(int64_t bytes, int64_t first, int64_t last);
  void place();
  int64_t offset(unsigned block) const { return blocks[block].offset; }
  int64_t bytes() const { return total; }

private:
  struct Block {
    int64_t bytes, first, last, offset;
  };
  llvm::SmallVector<Block> blocks;
  int64_t total = 0;
};

/// Largest values of a module's symbols, from its nn.dim or rt.symbol ops.
class SymbolBounds {
public:
  /// Symbols of the module around `op`.
  explicit SymbolBounds(mlir::Operation *op);
  /// An upper bound of the size; an error on `op` where a symbol has none.
  mlir::FailureOr<int64_t> evaluate(mlir::Operation *op,
                                    const nn::DimExpr &size) const;

private:
  llvm::StringMap<int64_t> bounds;
};

} // namespace dt::lower

#endif // PASSES_LOWER_OFFSETALLOCATOR_H
