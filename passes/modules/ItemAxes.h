//===- ItemAxes.h - Which axis of a value counts items ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A batch can be cut into parts if the graph treats items (samples, images)
// alone. The analysis follows the item axis of every value from inputs to
// outputs and says which op, if any, mixes items.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_ITEMAXES_H
#define PASSES_MODULES_ITEMAXES_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

namespace dt::modules {

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
  nn::DimExpr major = 1;
  /// PerItem, integers: positions that the recipe declares as an index, so
  /// that the data path rebases them for every part.
  bool declaredIndex = false;
  /// PerItem, integers: the element is a row of the item itself, where all
  /// items have `ownRange` rows together, item by item; `leads`: the first of
  /// an index tuple (last axis) is. Good for one thing, too: to pick these
  /// rows. As a value it would differ from part to part.
  bool isOwnNumber = false, leadsWithOwnNumber = false;
  nn::DimExpr ownRange = 0;
  bool hasOwnNumber() const { return isOwnNumber || leadsWithOwnNumber; }
  /// PerItem, integers: counts what came before in the part (a running sum over
  /// items). Good for one thing: to fill places in order with rows of items,
  /// for the places and the rows of a part are those of its samples. `culprit`
  /// is the sum.
  bool isRunningCount = false;
  /// Coupled: where, and why.
  mlir::Operation *culprit = nullptr;
  std::string reason;
  /// Coupled: by comparing items with items (a result with two item axes).
  bool pairwise = false;

  static ItemState perItem(int64_t axis, nn::DimExpr major = 1) {
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
};

/// States of all values of a module's @forward.
class ItemAnalysis {
public:
  /// `localStatistics`: means over items that keep an axis (batch
  /// normalisation) are taken a part at a time and do not couple.
  ItemAnalysis(dist::ModuleOp module, bool localStatistics);

  const ItemState &get(mlir::Value value) const {
    return states.find(value)->second;
  }
  /// Axes of a type whose size counts items.
  llvm::SmallVector<int64_t> getItemAxes(mlir::Type type) const;
  /// A symbol of the module that counts items.
  bool isItem(llvm::StringRef symbol) const { return symbols.contains(symbol); }
  bool takesLocalStatistics() const { return localStatistics; }

private:
  void visit(mlir::Operation *op);
  void visitCall(mlir::func::CallOp call);

  llvm::StringSet<> symbols;
  bool localStatistics;
  llvm::DenseMap<mlir::Value, ItemState> states;
  llvm::DenseSet<mlir::Operation *> active; ///< functions being looked at
};

/// The state of a generated tensor, from its body.
ItemState transferGenerate(nn::GenerateOp op, const ItemAnalysis &analysis);

/// The state of each result of `op` from those of its operands.
llvm::SmallVector<ItemState> transferItems(mlir::Operation *op,
                                           llvm::ArrayRef<ItemState> operands,
                                           const ItemAnalysis &analysis);

/// True if the batch is cut: there is more than one microbatch, or a module has
/// several data-parallel replicas.
bool isCut(mlir::ModuleOp program);
bool takesLocalStatistics(mlir::ModuleOp program);

/// "'nn.matmul' at "vision.onnx: node_3"" for messages.
std::string describe(mlir::Operation *op);

} // namespace dt::modules

#endif // PASSES_MODULES_ITEMAXES_H
