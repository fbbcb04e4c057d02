//===- Report.h - What a program costs ---------------------------*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What --emit=plan and --emit=memory show. Costs are read where operators are
// still whole (after differentiation), memory where everything has a place
// (after lowering): a report collects from the IR at both points.
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_REPORT_H
#define TOOLS_DT_OPT_REPORT_H

#include "dialects/nn/DimExpr.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dt {

/// Parameters are counted in elements, memory in bytes; FLOPs (a multiply-add
/// is 2) are of all microbatches of a step, at the bounds of ragged items.
struct ModuleReport {
  std::string name;
  std::string role = "-", item = "-";
  bool wholeBatch = false;
  int64_t trainable = 0, frozen = 0;
  /// Absent: a dim has no bound, or the function does not exist.
  std::optional<int64_t> forwardFlops, backwardFlops;
  /// Most items of each kind in a part.
  std::map<std::string, int64_t> rowsMax;
  std::string save = "vjp";
  /// Buffers between tasks, all slots; largest scratch of its stage functions.
  int64_t bufferBytes = 0, scratchBytes = 0;
};

/// A buffer of the arena in one slot.
struct BlockReport {
  std::string name, module, type;
  int64_t offset = 0, bytes = 0;
  int64_t first = 0, last = 0; ///< rows of the step between which it is in use
};

struct ProgramReport {
  int64_t globalBatch = 1, microBatch = 1;
  std::vector<ModuleReport> modules;
  bool hasMemory = false; ///< the IR was lowered: what follows is known
  int64_t arenaBytes = 0, parameterBytes = 0, scratchOffset = 0,
          scratchBytes = 0;
  std::vector<std::string> rows;   ///< "forward llm 0"
  std::vector<BlockReport> blocks; ///< by offset
  /// Functions with the most scratch, "module.function".
  std::vector<std::pair<std::string, int64_t>> scratch;

  int64_t getMicrobatches() const {
    return (globalBatch + microBatch - 1) / microBatch;
  }
  ModuleReport &getModule(llvm::StringRef name);
};

/// Adds parameters and FLOPs of the dist.modules in `program`.
void addCosts(mlir::ModuleOp program, ProgramReport &report);
/// Adds what stands in the arena of the rt.program in `program`, if there is
/// one.
void addMemory(mlir::ModuleOp program, ProgramReport &report);

void printPlan(const ProgramReport &report, llvm::raw_ostream &os);
/// A plan file (docs/plan.schema.json) with the costs under `predicted`.
void printPlanJson(const ProgramReport &report, llvm::raw_ostream &os);
void printMemory(const ProgramReport &report, llvm::raw_ostream &os);
void printMemoryJson(const ProgramReport &report, llvm::raw_ostream &os);
/// The arena as a picture: rows of the step to the right, bytes upwards.
void printMemorySvg(const ProgramReport &report, llvm::raw_ostream &os);

} // namespace dt

#endif // TOOLS_DT_OPT_REPORT_H
