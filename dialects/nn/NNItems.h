//===- NNItems.h - Which axis of a value counts items -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A batch can be cut into parts if the graph treats items (samples, images)
// alone. An op says how the state of its results follows from those of its
// operands (ItemOpInterface); what has no rule counts as mixing items, for a
// wrong cut would train silently. docs/modules.md.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNITEMS_H
#define DIALECTS_NN_NNITEMS_H

#include "dialects/nn/DimExpr.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace dt::nn {

/// How a value depends on the items of a part.
struct ItemState {
  enum Kind {
    Invariant, ///< on none: parameters, constants
    PerItem,   ///< element at item i of `axis` depends on item i only
    Sum,       ///< a sum over items of what depends on one each
    Coupled    ///< anything else
  };
  Kind kind = Invariant;
  /// PerItem: the axis, which has size major * items * rest.
  int64_t axis = 0;
  DimExpr major = 1;
  /// PerItem, integers: positions that the recipe declares as an index, so
  /// that the data path rebases them for every part.
  bool declaredIndex = false;
  /// PerItem, integers: the element is a row of the item itself, where all
  /// items have `ownRange` rows together, item by item; `leads`: the first of
  /// an index tuple (last axis) is. Good for one thing, too: to pick these
  /// rows. As a value it would differ from part to part.
  bool isOwnNumber = false, leadsWithOwnNumber = false;
  DimExpr ownRange = 0;
  bool hasOwnNumber() const { return isOwnNumber || leadsWithOwnNumber; }
  /// PerItem, integers: counts what came before in the part (a running sum over
  /// items). Good for one thing: to fill places in order with rows of items,
  /// for the places and the rows of a part are those of its samples. `culprit`
  /// is the sum.
  bool isRunningCount = false;
  /// PerItem, integers: those of a raw input, one for one, plus a number. Of
  /// these the program can check that items have different ones.
  bool isGiven = false;
  int64_t givenPlus = 0;
  /// Coupled: where, and why.
  mlir::Operation *culprit = nullptr;
  std::string reason;
  /// Coupled: by comparing items with items (a result with two item axes).
  bool pairwise = false;
  /// Coupled, pairwise: element (i, j) depends on the rows i and j and on how
  /// far apart they are, so where both are of one item it is the same in every
  /// part. Good where pairs of different items do not count.
  bool isPairTable = false;

  static ItemState perItem(int64_t axis, DimExpr major = 1) {
    ItemState state;
    state.kind = PerItem;
    state.axis = axis;
    state.major = std::move(major);
    return state;
  }
  static ItemState sum() {
    ItemState state;
    state.kind = Sum;
    return state;
  }
  static ItemState coupled(mlir::Operation *op, const llvm::Twine &reason,
                           bool pairwise = false) {
    ItemState state;
    state.kind = Coupled;
    state.culprit = op;
    state.reason = reason.str();
    state.pairwise = pairwise;
    return state;
  }
  bool is(Kind k) const { return kind == k; }
  /// The same on another axis.
  ItemState onAxis(int64_t other) const {
    ItemState state = *this;
    state.axis = other;
    return state;
  }
  /// The same as plain numbers: neither index nor number of a row.
  ItemState asNumber() const {
    ItemState state = *this;
    state.declaredIndex = state.isOwnNumber = state.leadsWithOwnNumber = false;
    return state;
  }
};

/// States of an op's operands, in order.
using ItemStates = llvm::ArrayRef<ItemState>;

/// What a rule may ask about the module.
class ItemContext {
public:
  virtual ~ItemContext() = default;
  /// Axes of a type whose size counts items.
  virtual llvm::SmallVector<int64_t> getItemAxes(mlir::Type type) const = 0;
  /// A symbol of the module that counts items.
  virtual bool isItem(llvm::StringRef symbol) const = 0;
  /// Means over items that keep an axis (batch normalisation) are taken a part
  /// at a time and do not couple.
  virtual bool takesLocalStatistics() const = 0;
};

// Reasons that several rules and checks give.
inline constexpr llvm::StringLiteral kNumberInPart =
    "depends on the number of the item in its part";
inline constexpr llvm::StringLiteral kNotLinearInSum =
    "is not linear in a sum over items";
inline constexpr llvm::StringLiteral kEveryWithEvery =
    "combines every item with every other";
inline constexpr llvm::StringLiteral kOtherOrder =
    "combines items in different orders";

bool allAre(ItemStates states, ItemState::Kind kind);
bool anyIs(ItemStates states, ItemState::Kind kind);

/// Values that broadcast against one another: item axes must meet.
ItemState alignItems(mlir::Operation *op, ItemStates operands);
/// Whether an elementwise op, or a view with other axes of size 1, on these
/// gives a table of pairs. None of the operands is a number of a row.
bool arePairs(mlir::Operation *op, ItemStates operands);
/// Elementwise ops: linear ones keep a sum over items a sum.
ItemState elementwiseItems(mlir::Operation *op, ItemStates operands);
/// An op that works along one axis of its operand, and on all others alone.
ItemState itemsBesideAxis(mlir::Operation *op, const ItemState &state,
                          int64_t axis);
/// Items on the first axis of the first `data` operands; the others, weights,
/// have none.
ItemState leadingItems(mlir::Operation *op, ItemStates operands, unsigned data);

} // namespace dt::nn

#endif // DIALECTS_NN_NNITEMS_H
