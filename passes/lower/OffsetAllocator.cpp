//===- OffsetAllocator.cpp - Offsets of blocks with lifetimes ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/lower/OffsetAllocator.h"

#include "dialects/rt/RTOps.h"

#include <numeric>

using namespace mlir;
using namespace dt;
using namespace dt::lower;

unsigned OffsetAllocator::add(int64_t bytes, int64_t first, int64_t last) {
  blocks.push_back({alignUp(bytes), first, last, 0});
  return blocks.size() - 1;
}

void OffsetAllocator::place() {
  SmallVector<unsigned> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](unsigned a, unsigned b) {
    return blocks[a].bytes > blocks[b].bytes;
  });
  SmallVector<unsigned> placed; // by offset
  for (unsigned i : order) {
    Block &block = blocks[i];
    int64_t at = 0;
    for (unsigned j : placed) {
      const Block &other = blocks[j];
      if (other.last < block.first || block.last < other.first)
        continue;
      if (at + block.bytes <= other.offset)
        break;
      at = std::max(at, other.offset + other.bytes);
    }
    block.offset = at;
    total = std::max(total, at + block.bytes);
    placed.insert(llvm::upper_bound(placed, i,
                                    [&](unsigned a, unsigned b) {
                                      return blocks[a].offset <
                                             blocks[b].offset;
                                    }),
                  i);
  }
}

SymbolBounds::SymbolBounds(Operation *op) {
  Operation *table = SymbolTable::getNearestSymbolTable(op->getParentOp());
  for (auto dim : table->getRegion(0).getOps<nn::DimOp>())
    if (dim.getMax())
      bounds[dim.getSymName()] = *dim.getMax();
  for (auto symbol : table->getRegion(0).getOps<rt::SymbolOp>())
    bounds[symbol.getSymName()] = int64_t(symbol.getMax());
}

FailureOr<int64_t> SymbolBounds::evaluate(Operation *op,
                                          const nn::DimExpr &size) const {
  int64_t total = 0;
  for (const nn::DimExpr::Term &term : size.terms()) {
    int64_t v = term.coefficient;
    for (const std::string &symbol : term.symbols) {
      auto it = bounds.find(symbol);
      if (it == bounds.end())
        return op->emitError()
               << "the memory that this takes has no bound, because '" << symbol
               << "' has none: a recipe's \"dims\" say that it is a number, "
                  "or an item whose \"max\" stands in \"items\"; for one "
                  "graph --dims="
               << symbol << "=NUMBER (in IR: nn.dim @" << symbol
               << " of \"item\" max N)";
      if (__builtin_mul_overflow(v, it->second, &v))
        return op->emitOpError("cannot be planned: its size overflows");
    }
    // A symbol may be 0, so what is taken off does not lower the bound.
    if ((term.symbols.empty() || v > 0) &&
        __builtin_add_overflow(total, v, &total))
      return op->emitOpError("cannot be planned: its size overflows");
  }
  return std::max<int64_t>(total, 0);
}
