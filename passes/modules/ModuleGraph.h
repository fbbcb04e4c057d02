//===- ModuleGraph.h - A module's ops as a graph with costs -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What the search for modules inside one graph (FindModules, docs/modules.md)
// asks of a @forward: which raw inputs an op depends on, what it costs, what
// may be computed on both sides of a cut, and whether a value is a stream that
// goes on behind it. No name is looked at.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_MODULEGRAPH_H
#define PASSES_MODULES_MODULEGRAPH_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace dt::modules {

/// Raw inputs by number; those that no parameter meets (masks, labels, targets)
/// belong to nobody and are left out (getContentInputs). A value that comes
/// over an edge from a part found before depends on what that part depends on.
using Support = llvm::BitVector;

class ModuleGraph {
public:
  struct Node {
    mlir::Operation *op;
    Support support;
    double flops; ///< of a full microbatch
    bool readsParameter;
    /// Reads no parameter (and what it is computed from does not), or depends
    /// on no input, and costs next to nothing: better computed on both sides
    /// than sent.
    bool isCopied;
  };

  /// `supports`: of inputs, by name.
  ModuleGraph(dist::ModuleOp module, const llvm::StringMap<Support> &supports);

  llvm::ArrayRef<Node> getNodes() const { return nodes; }
  size_t size() const { return nodes.size(); }
  const Node &operator[](size_t i) const { return nodes[i]; }
  /// Number of the op; none of the terminator.
  std::optional<size_t> find(mlir::Operation *op) const {
    auto it = numbers.find(op);
    return it == numbers.end() ? std::nullopt : std::optional(it->second);
  }
  /// The inputs that some op with a parameter reads, directly or after ops
  /// without any: embedded ids, pixels, a time step.
  Support getContentInputs() const;
  /// Calls `visit` with the number of each op (not copied) whose result op `i`
  /// takes.
  void forOperands(size_t i, llvm::function_ref<void(size_t)> visit) const;
  /// Calls `visit` with the number of each op that takes `value`; the
  /// terminator is none.
  void forUsers(mlir::Value value,
                llvm::function_ref<void(size_t)> visit) const;

  /// Samples of a full microbatch: FLOPs and bytes are those of one, and whole
  /// numbers.
  double getSamples() const { return samples; }
  /// FLOPs of all ops.
  double getFlops() const { return total; }
  double getBytes(mlir::Value value) const;

  /// Numbers of the ops that add (or append) to `value` what is computed from
  /// it with parameters: a residual connection runs from `value` to there. A
  /// stack of layers goes on there, so that a cut before is inside it.
  llvm::SmallVector<size_t> getStreamUses(mlir::Value value) const;

private:
  double evaluate(const nn::DimExpr &size) const;
  void visit(mlir::Operation *op);
  Support supportOf(mlir::Value value) const;

  dist::ModuleOp module;
  double samples = 1, total = 0;
  llvm::StringMap<Support> supports;
  unsigned numInputs = 0;
  std::vector<Node> nodes;
  std::vector<char> independentOfParameters; ///< what it is computed from, too
  llvm::DenseMap<mlir::Operation *, size_t> numbers;
};

/// "12.3 M", to be followed by a unit.
std::string formatCount(double number);

/// A remark "'module' is cut at …: n bytes a sample cross", to be continued; at
/// the last of `crossing`, or at `otherwise` if nothing crosses.
mlir::InFlightDiagnostic remarkCut(const ModuleGraph &graph,
                                   llvm::StringRef module,
                                   llvm::ArrayRef<mlir::Value> crossing,
                                   mlir::Operation *otherwise);

} // namespace dt::modules

#endif // PASSES_MODULES_MODULEGRAPH_H
