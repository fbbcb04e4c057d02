//===- ItemAxes.h - Which axis of a value counts items ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The analysis follows the item axis of every value from inputs to outputs, as
// the ops say (ItemOpInterface), and tells which op, if any, mixes items.
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

using nn::ItemState;

/// States of all values of a module's @forward.
class ItemAnalysis : public nn::ItemContext {
public:
  /// `localStatistics`: means over items that keep an axis (batch
  /// normalisation) are taken a part at a time and do not couple.
  ItemAnalysis(dist::ModuleOp module, bool localStatistics);

  const ItemState &get(mlir::Value value) const {
    return states.find(value)->second;
  }
  llvm::SmallVector<int64_t> getItemAxes(mlir::Type type) const override;
  bool isItem(llvm::StringRef symbol) const override {
    return symbols.contains(symbol);
  }
  bool takesLocalStatistics() const override { return localStatistics; }

private:
  /// The state of each result of `op` from those of its operands.
  ItemState stateOf(mlir::Value result, const ItemState &said,
                    nn::ItemStates operands) const;
  llvm::SmallVector<ItemState> transfer(mlir::Operation *op,
                                        nn::ItemStates operands) const;
  /// Whether a value's items stand one after another on its first axis.
  bool hasItemsFirst(mlir::Value value) const;
  /// Whether what is combined are rows of the tokens, each treated alone in the
  /// order by expert that its own items chose: then results are of items as the
  /// tokens are.
  bool combinesOwnRows(nn::CombineOp combine) const;
  void visit(mlir::Operation *op);
  void visitCall(mlir::func::CallOp call);

  llvm::StringSet<> symbols;
  bool localStatistics;
  llvm::DenseMap<mlir::Value, ItemState> states;
  llvm::DenseSet<mlir::Operation *> active; ///< functions being looked at
};

/// True if the batch is cut: there is more than one microbatch, or a module has
/// several data-parallel replicas.
bool isCut(mlir::ModuleOp program);
bool takesLocalStatistics(mlir::ModuleOp program);
/// An operator of the module whose results depend on how a microbatch is cut
/// into parts, since the program takes local statistics; null: there is none.
mlir::Operation *findLocalStatistics(dist::ModuleOp module);

/// The operand that the op adds one integer to all of; nothing: it does
/// something else.
std::optional<unsigned> findShifted(mlir::Operation *op);

/// Why places (indices that the recipe declares) may only pick rows.
inline constexpr llvm::StringLiteral kPlaces =
    "computes with places of an input, which each part counts anew, instead of "
    "picking rows by them";

/// "'nn.matmul' at "vision.onnx: node_3"" for messages.
std::string describe(mlir::Operation *op);

} // namespace dt::modules

#endif // PASSES_MODULES_ITEMAXES_H
