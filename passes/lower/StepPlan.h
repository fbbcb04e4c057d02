//===- StepPlan.h - Task rows and buffers of one step -------------*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What one process does in a step, in which order, and where in the arena what
// outlives a task is. Free of rt ops: LowerProgram.cpp writes the tables.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_STEPPLAN_H
#define PASSES_LOWER_STEPPLAN_H

#include "dialects/dist/DistOps.h"
#include "dialects/rt/RTOps.h"
#include "passes/lower/Layout.h"

#include "llvm/ADT/MapVector.h"

namespace dt::lower {

/// A range of the arena. Several declarations may name it: an output and the
/// inputs that edges feed with it.
struct ArenaBlock {
  int64_t bytes = 0; ///< of one slot
  int64_t slots = 1;
  int64_t first = 0, last = 0; ///< rows between which it is in use
  /// Microbatches write rows one after another: addressed by row, or where
  /// every part has the same number of rows by slot.
  bool gathers = false;
  int64_t stride = 0; ///< bytes from slot to slot
  unsigned place = 0; ///< in the layout
};

/// A buffer as one module sees it.
struct Declaration {
  std::string name;
  rt::BufferType type;
  unsigned block;
  bool byRow = false;
};

struct PlannedModule {
  dist::ModuleOp op;
  rt::FuncOp forward, backward; ///< backward may be null
  bool wholeBatch = false;
  bool tower = false; ///< a whole-batch module depends on it
  llvm::SmallVector<dist::EdgeOp> in;
  std::vector<Declaration> declarations;
  /// Indices into declarations, an argument of the function each.
  llvm::SmallVector<unsigned> forwardBuffers, backwardBuffers;
  struct Input {
    std::string name;
    unsigned declaration;
    dist::EdgeOp edge; ///< null: raw
  };
  llvm::SmallVector<Input> inputs;
  llvm::SmallVector<std::pair<std::string, unsigned>> outputs;
  int64_t forwardRow = 0, backwardRow = 0; ///< of microbatch 0
};

struct PlannedLoss {
  dist::LossOp op;
  rt::FuncOp denominator; ///< may be null
  unsigned module = 0, numerator = 0, denominatorOut = 0;
  llvm::SmallVector<unsigned> denominatorBuffers; ///< declarations
  llvm::SmallVector<int32_t> denominatorInputs;   ///< indices into inputs
};

struct Row {
  rt::StageKind kind;
  unsigned index; ///< loss or module
  int64_t microbatch, slot;
};

class StepPlan {
public:
  explicit StepPlan(mlir::ModuleOp program) : program(program) {}
  mlir::LogicalResult run();

  std::vector<PlannedModule> modules; ///< topological order
  std::vector<PlannedLoss> losses;
  std::vector<ArenaBlock> blocks;
  std::vector<Row> rows;
  Layout layout;
  int64_t globalBatch = 1, microBatch = 1, microbatches = 1;

private:
  mlir::LogicalResult sortModules();
  mlir::LogicalResult findLosses();
  void markTowers();
  void writeRows();
  mlir::LogicalResult declareForward(PlannedModule &m);
  mlir::LogicalResult declareBackward(PlannedModule &m);
  mlir::LogicalResult declareLoss(PlannedLoss &loss);
  mlir::FailureOr<unsigned> declare(PlannedModule &m, llvm::StringRef name,
                                    rt::BufferType type, int64_t row);
  mlir::FailureOr<unsigned> declareEdge(PlannedModule &m, llvm::StringRef name,
                                        rt::BufferType type, dist::EdgeOp edge);
  mlir::FailureOr<unsigned> gather(PlannedModule &m, llvm::StringRef name,
                                   rt::BufferType type, unsigned block,
                                   mlir::Operation *op);
  dist::EdgeOp headEdge(PlannedModule &m, llvm::StringRef output);
  mlir::FailureOr<unsigned> declareGathered(PlannedModule &m,
                                            llvm::StringRef name,
                                            rt::BufferType type,
                                            dist::EdgeOp edge);
  mlir::FailureOr<unsigned> declareOutput(PlannedModule &m, unsigned argument,
                                          unsigned &residuals);
  mlir::FailureOr<unsigned> declareInput(PlannedModule &m, unsigned argument);
  void extend(PlannedModule &m, unsigned declaration, int64_t row);
  mlir::FailureOr<unsigned> bufferOfGradient(PlannedModule &m,
                                             unsigned argument);
  void placeBlocks();
  PlannedModule &moduleOf(mlir::FlatSymbolRefAttr name);

  mlir::ModuleOp program;
  llvm::StringMap<unsigned> indexOf; ///< module by name
  /// Gradient that an edge brings back: block, by "module.input".
  llvm::StringMap<unsigned> edgeGradients;
};

} // namespace dt::lower

#endif // PASSES_LOWER_STEPPLAN_H
