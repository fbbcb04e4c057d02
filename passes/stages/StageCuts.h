//===- StageCuts.h - Where a module is cut into stages ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// @forward is a list of ops, some of them calls of layers. What does work and
// is not cheap to do again is *placed* in one stage; the rest is *free*: every
// stage that needs it has it (arguments, parameters) or computes it again
// (constants, what has no items, what comes cheaply from raw inputs).
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_STAGES_STAGECUTS_H
#define PASSES_STAGES_STAGECUTS_H

#include "passes/planner/hardware/Cluster.h"
#include "passes/stages/BoundSizes.h"

namespace dt::stages {

/// Whether a tensor's first axis counts items, and nothing else.
bool countsItems(dist::ModuleOp module, mlir::Type type);

class StageCuts {
public:
  /// `parts`: that a microbatch is cut into; if there are several,
  /// values that cross must have their items first.
  StageCuts(dist::ModuleOp module, int64_t parts);

  /// Chooses cuts for pp * vpp stages with the planner's costs of ops and of
  /// messages on the cluster's first devices: planner::balancedRounds(). Emits
  /// an error if there are too few places to cut at.
  mlir::LogicalResult balance(const planner::Cluster &cluster, int64_t pp,
                              int64_t vpp, bool goesBack);
  /// Cuts as the plan says: names of pieces ("embed", "layers.0", "layers.1-3",
  /// "head") for every stage.
  mlir::LogicalResult assign(mlir::ArrayAttr stages);

  /// The stage of a placed op, or -1 if it is free.
  int64_t getStage(mlir::Operation *op) const;
  bool isFree(mlir::Value value) const;
  double getFlops(int64_t stage);
  /// What a value that crosses is sent as: messages of a bf16 module are bf16;
  /// what it returns by that name anyway goes as it is.
  mlir::Type getSentType(mlir::Value value) const;
  /// Values that go from earlier stages to `stage` or later ones.
  llvm::ArrayRef<mlir::Value> getCrossing(int64_t stage) const {
    return crossing[cuts[stage]];
  }

  /// What a plan names: placed ops `begin` to `end`.
  struct Piece {
    std::string name;
    size_t begin, end = 0;
    bool mayBegin = true; ///< whether a stage may begin here
    double bytes = 0;     ///< that cross into it
  };
  llvm::ArrayRef<Piece> getPieces() const { return pieces; }
  llvm::ArrayRef<mlir::Operation *> getPlaced() const { return placed; }

private:
  void classify();
  void namePieces();
  void findCrossing();
  bool mayCross(mlir::Value value) const;
  /// Rows are those of a rank's own experts up to the last use of the order.
  bool ordersExperts(mlir::Operation *op) const;
  mlir::LogicalResult parsePieces(mlir::StringRef text,
                                  std::vector<size_t> &pieces);

  dist::ModuleOp module;
  mlir::func::FuncOp forward;
  int64_t parts;
  BoundSizes costs;
  std::vector<mlir::Operation *> placed; ///< in order
  llvm::DenseMap<mlir::Operation *, size_t> indexOf;
  std::vector<Piece> pieces;
  /// Before placed op i: what crosses, whether it may, its bytes.
  std::vector<llvm::SmallVector<mlir::Value>> crossing;
  std::vector<bool> legal;
  std::vector<double> bytes;
  /// Stage s is placed[cuts[s]] to placed[cuts[s + 1]].
  std::vector<size_t> cuts;
};

} // namespace dt::stages

#endif // PASSES_STAGES_STAGECUTS_H
