//===- Report.h - What a program costs --------------------------*- C++ -*-===//
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

#include "passes/plan/Passes.h"
#include "passes/planner/describe/Plan.h"
#include "runtime/comm/MessageBlocks.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dt {
namespace rt {
class ProgramOp;
}

/// Parameters are counted in elements, memory in bytes; FLOPs (a multiply-add
/// is 2) are of all microbatches of a step, at the bounds of ragged items.
struct ModuleReport {
  std::string name;
  std::string role = "-", item = "-";
  bool wholeBatch = false;
  int64_t trainable = 0, frozen = 0;
  /// Absent: a dim has no bound, or the function does not exist.
  std::optional<int64_t> forwardFlops, backwardFlops;
  /// Most items of each kind, and most of what their measures add up to, in a
  /// part: by "image", "image.patches".
  std::map<std::string, int64_t> rowsMax;
  std::string save = "vjp";
  /// Buffers between tasks, all slots; largest scratch of its module functions.
  int64_t bufferBytes = 0, scratchBytes = 0;

  // With a plan; sizes and FLOPs are then those of one rank.
  std::string unit;
  int64_t stage = 0, tp = 1, cp = 1, dp = 1, sub = 1, span = 1, zero = 0;
  std::optional<int64_t> runAhead;
  int64_t overlap = 1, ep = 1;
  std::optional<rt::ContextKeys> context;
  bool sequenceParallel = false;
  std::vector<int64_t> ranks;
  int64_t stateBytes[3] = {0, 0, 0}; ///< parameters, gradients, optimizer
  /// Inputs, outputs, residuals and edges' gradients of a microbatch (all its
  /// pieces), how many of these stand at once on the rank that has most.
  int64_t slotBytes = 0, slots = 1;
  /// Of all that stand there at once, each kind of slot for itself.
  int64_t activationBytes = 0;
  /// What a replica sends to other modules a microbatch, forward.
  int64_t sentBytes = 0;
  /// What the schedule rests on, and where that is from.
  std::optional<planner::StageTimes> times;
  std::string timesFrom;

  /// Replicas that are one in the program, whose parts are as many times
  /// larger.
  int64_t joined = 1;

  int64_t getGroup() const { return tp * cp; } ///< ranks of a replica
  int64_t getBytes() const {
    return stateBytes[0] + stateBytes[1] + stateBytes[2] + activationBytes;
  }
};

/// A step as it was scheduled.
struct ScheduleReport {
  scheduler::Problem problem;
  scheduler::Solution solution;
};

/// What dist.plan says, and what its schedule is expected to take.
struct PlanReport {
  int64_t ranks = 1, bucketBytes = 0, depth = 0;
  bool narrowSums = false;
  std::string schedule, pace, reorder;
  std::vector<int64_t> memory;
  /// Ns of messages between units, by "module.input".
  std::map<std::string, int64_t> messages;
  int64_t wall = 0; ///< predicted ns of a step, without its end
  double bubble = 0;
  /// The problem and what solves it, for pictures; null: not scheduled.
  std::shared_ptr<const ScheduleReport> steps;
};

/// What a forward keeps for its backward, in the order of its results.
struct ResidualReport {
  std::string layer; ///< by its parameters' names; empty: outside layers
  std::string made;  ///< the operator that makes it
};

/// A buffer of the arena in one slot.
struct BlockReport {
  enum Role { Passed, Saved, Gradient } role = Passed;
  std::string name, module, type;
  ResidualReport residual; ///< of Saved; empty: not known
  int64_t offset = 0, bytes = 0;
  int64_t first = 0, last = 0; ///< rows of the step between which it is in use
};

/// What a rank allocates, to the byte.
struct RankReport {
  struct Module {
    std::string name;
    int64_t arena = 0, parameters = 0, gradients = 0;
    int64_t moments = 0; ///< its share of the optimizer's state
    int64_t sums = 0;    ///< ZeRO: its blocks of gradients being summed
    int64_t total() const {
      return arena + parameters + gradients + moments + sums;
    }
  };
  /// Blocks of messages, by what carries them.
  struct Messages {
    rt::Carrier over{};
    int64_t device = 0, host = 0;
  };
  /// On a GPU, with NCCL, in bytes; estimates but for the number of
  /// communicators and cuBLASLt (LibraryMemory.h).
  struct Libraries {
    int64_t communicators = 0, nccl = 0, cublaslt = 0;
    int64_t cudnn = 0; ///< at most
    int64_t context = 0;
  };
  int64_t scratch = 0;
  Libraries libraries;
  std::vector<Module> modules;
  std::vector<Messages> messages;
  /// Of what may carry those of a target (where memory is the host's, all of it
  /// is the device's) the most.
  Messages getMostMessages(bool onHost) const;
  /// With these.
  planner::RankBytes getBytes(bool onHost) const;
  /// Of all modules; the name is all names with `separator` between them.
  Module sum(llvm::StringRef separator) const;
};

struct ProgramReport {
  int64_t globalBatch = 1, microBatch = 1;
  std::vector<ModuleReport> modules;
  std::optional<PlanReport> plan;
  plan::PlanTexts chosen; ///< of a policy that chose the plan
  bool hasMemory = false; ///< the IR was lowered: what follows is known
  int64_t arenaBytes = 0, parameterBytes = 0, scratchOffset = 0,
          scratchBytes = 0;
  /// By module, as long as it is not lowered.
  std::map<std::string, std::vector<ResidualReport>> residuals;
  std::vector<std::string> rows;   ///< "forward llm 0"
  std::vector<BlockReport> blocks; ///< by offset
  std::vector<RankReport> ranks;
  bool onHost = true; ///< device memory is the host's, by the target
  /// Functions with the most scratch, "module.function".
  std::vector<std::pair<std::string, int64_t>> scratch;

  int64_t getMicrobatches() const {
    return (globalBatch + microBatch - 1) / microBatch;
  }
  ModuleReport &getModule(llvm::StringRef name);
};

/// A unit and its stages.
struct UnitReport {
  std::string name;
  std::vector<const ModuleReport *> stages;
};
/// With modules over the whole batch or without: these are not planned, their
/// ranks follow.
std::vector<UnitReport> getUnits(const ProgramReport &report, bool wholeBatch);

/// Adds parameters and FLOPs of the dist.modules in `program`.
void addCosts(mlir::ModuleOp program, ProgramReport &report);
/// Adds who runs what, if there is a dist.plan, and what it takes. After
/// addCosts.
void addPlan(mlir::ModuleOp program, ProgramReport &report);
/// Adds where in the modules' layers what they keep for backwards is made.
void addResiduals(mlir::ModuleOp program, ProgramReport &report);
/// Adds what stands in the arena of the rt.program in `program`, if there is
/// one.
llvm::LogicalResult addMemory(mlir::ModuleOp program, ProgramReport &report);

/// Adds what every rank allocates; emits an error if the tables contradict one
/// another. `carriers`: of these the messages; none: of all.
llvm::LogicalResult addRanks(rt::ProgramOp program, ProgramReport &report,
                             llvm::ArrayRef<rt::Carrier> carriers = {});
/// What may carry messages where memory is the host's, or where it is not.
llvm::ArrayRef<rt::Carrier> listCarriers(bool onHost);

void printPlan(const ProgramReport &report, llvm::raw_ostream &os);
/// A table of what every rank allocates.
void printRankMemory(const ProgramReport &report, llvm::raw_ostream &os);
/// What libraries take beside it on a GPU.
void printLibraryMemory(const ProgramReport &report, llvm::raw_ostream &os);
/// A plan file (docs/plan.schema.json) with the costs under `predicted`.
void printPlanJson(const ProgramReport &report, llvm::raw_ostream &os);
void printMemory(const ProgramReport &report, llvm::raw_ostream &os);
void printMemoryJson(const ProgramReport &report, llvm::raw_ostream &os);
/// The arena as a picture: rows of the step to the right, bytes upwards.
void printMemorySvg(const ProgramReport &report, llvm::raw_ostream &os);
/// The same in a page, with what every rank allocates and the largest buffers.
void printMemoryHtml(const ProgramReport &report, llvm::raw_ostream &os);
/// Plan, schedule and memory as a page (docs/plan.md).
void printPlanHtml(const ProgramReport &report, llvm::raw_ostream &os);

} // namespace dt

#endif // TOOLS_DT_OPT_REPORT_H
