//===- StepPlan.h - Modules, edges and buffers of a step --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What the modules of a program have in their memory regions, and which of it
// the edges join. In which order ranks run them is RankRows' business, which
// also says how many slots there are. Free of rt ops: LowerProgram.cpp writes
// the tables.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_STEPPLAN_H
#define PASSES_LOWER_STEPPLAN_H

#include "dialects/dist/DistOps.h"
#include "dialects/rt/RTOps.h"
#include "passes/lower/OffsetAllocator.h"

namespace dt::lower {

/// A tensor in a module's arena region.
struct Declaration {
  std::string name;
  rt::BufferType type;
  /// None: one for all microbatches, as nothing reads it after its task.
  std::optional<rt::SlotKind> slots;
  /// Rows of several parts put together are not those of the batch.
  bool unjoined = false;
  dist::LayoutAttr layout = {}; ///< if padded or a rank's part, or null
  int64_t bytes = 0;            ///< at the bounds of the module's symbols
  int64_t offset = 0, stride = 0;
};

struct PlannedModule {
  explicit PlannedModule(dist::ModuleOp op)
      : op(op), place(op), span(op.getSpan()) {}

  dist::ModuleOp op;
  dist::Placement place;
  int64_t span; ///< microbatches that a task works on
  /// Null but for the first if there is nothing to train; either `backward` or
  /// its halves, of which one may be missing.
  rt::FuncOp forward, backward, backwardInput, backwardWeight;
  bool wholeBatch = false;
  llvm::SmallVector<unsigned> in, out; ///< edges
  std::vector<Declaration> declarations;
  /// Indices into declarations, an argument of the function each.
  llvm::SmallVector<unsigned> forwardBuffers, backwardBuffers,
      backwardInputBuffers, backwardWeightBuffers;
  struct Input {
    std::string name;
    unsigned declaration;
    int edge; ///< -1: raw
  };
  llvm::SmallVector<Input> inputs;
  llvm::SmallVector<std::pair<std::string, unsigned>> outputs;
  llvm::SmallVector<unsigned> saved; ///< residuals of the forward function
  /// By kind, from RankRows: the most on any rank.
  std::array<int64_t, rt::kCases<rt::SlotKind>> slots{1, 1, 1, 1};
  int64_t arenaBytes = 0, scratchBytes = 0;

  /// The first microbatch of the task that serves this one.
  int64_t getFirst(int64_t microbatch) const {
    return microbatch - microbatch % span;
  }
  bool hasBackward() const {
    return backward || backwardInput || backwardWeight;
  }
  /// Declarations that the module's rows of that kind use.
  llvm::ArrayRef<unsigned> getBuffers(rt::TaskKind kind) const;
  /// After which a microbatch adds to no gradient of a parameter; may be null.
  rt::FuncOp lastBackward() const {
    return backward ? backward : backwardWeight;
  }
};

struct PlannedEdge {
  dist::EdgeOp op;
  unsigned from, to; ///< modules
  unsigned fromOutput = 0, toInput = 0;
  /// Declarations of the target and of the source; without a gradient none.
  std::optional<unsigned> produced{}, consumed{};
};

struct PlannedLoss {
  dist::LossOp op;
  rt::FuncOp denominator; ///< may be null
  unsigned module = 0, numerator = 0, denominatorOut = 0;
  llvm::SmallVector<unsigned> denominatorBuffers; ///< declarations
  llvm::SmallVector<int32_t> denominatorInputs;   ///< indices into inputs
};

class StepPlan {
public:
  explicit StepPlan(mlir::ModuleOp program) : program(program) {}
  /// Everything but offsets.
  mlir::LogicalResult run();
  /// Offsets, once the numbers of slots are known.
  void placeBuffers();
  /// -1 if there is no such module.
  int findModule(llvm::StringRef name) const;

  mlir::ModuleOp program;
  std::vector<PlannedModule> modules; ///< topological order
  std::vector<PlannedEdge> edges;     ///< in the order of dist.edge
  std::vector<PlannedLoss> losses;
  int64_t globalBatch = 1, microBatch = 1, microbatches = 1;

private:
  mlir::LogicalResult findModules();
  mlir::LogicalResult findLosses();
  mlir::LogicalResult declareForward(PlannedModule &m);
  mlir::FailureOr<unsigned> declareOutput(PlannedModule &m, unsigned argument);
  mlir::FailureOr<unsigned> declareInput(PlannedModule &m, unsigned argument);
  mlir::LogicalResult declareBackward(PlannedModule &m);
  mlir::LogicalResult declareFunction(PlannedModule &m, rt::FuncOp function,
                                      llvm::SmallVectorImpl<unsigned> &buffers);
  mlir::FailureOr<unsigned> findOperand(PlannedModule &m, rt::FuncOp function,
                                        unsigned argument, unsigned &nextSaved);
  mlir::FailureOr<unsigned> findGradient(PlannedModule &m, rt::FuncOp function,
                                         unsigned argument);
  mlir::LogicalResult joinEdge(PlannedEdge &edge);
  mlir::LogicalResult declareLoss(PlannedLoss &loss);
  mlir::FailureOr<unsigned> declare(PlannedModule &m, rt::FuncOp function,
                                    unsigned argument, llvm::StringRef name,
                                    std::optional<rt::SlotKind> slots);
  /// With halves of a backward: not all buffers are needed until the last.
  void shortenLives(PlannedModule &m);
};

} // namespace dt::lower

#endif // PASSES_LOWER_STEPPLAN_H
