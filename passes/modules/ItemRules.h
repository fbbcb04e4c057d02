//===- ItemRules.h - Pieces of the rules for item axes ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What the files of transferItems share.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_ITEMRULES_H
#define PASSES_MODULES_ITEMRULES_H

#include "passes/modules/ItemAxes.h"

namespace dt::modules {

using States = llvm::ArrayRef<ItemState>;
inline constexpr auto kInvariant = ItemState::Invariant;
inline constexpr auto kPerItem = ItemState::PerItem;
inline constexpr auto kSum = ItemState::Sum;

inline constexpr char kNumberInPart[] =
    "depends on the number of the item in its part";

inline int64_t rankOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getRank();
}
inline bool allAre(States states, ItemState::Kind kind) {
  return llvm::all_of(states, [&](const ItemState &s) { return s.is(kind); });
}
inline bool anyIs(States states, ItemState::Kind kind) {
  return llvm::any_of(states, [&](const ItemState &s) { return s.is(kind); });
}

/// Values that broadcast against one another: item axes must meet.
ItemState aligned(mlir::Operation *op, States operands);

// Ops that pick by indices (ItemRulesIndexing.cpp): of items only what the
// recipe declares, or what the graph shows to be of the same item.
ItemState gather(nn::GatherOp op, States operands);
ItemState gatherElements(nn::GatherElementsOp op, States operands);
ItemState gatherNd(nn::GatherNdOp op, States operands);
ItemState scatterNd(nn::ScatterNdOp op, States operands);
ItemState crossEntropy(nn::CrossEntropyOp op, States operands);
/// Whether op picks items (not what lies inside of them) by its indices.
bool picksItems(mlir::Operation *op, States operands);

} // namespace dt::modules

#endif // PASSES_MODULES_ITEMRULES_H
