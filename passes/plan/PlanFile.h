//===- PlanFile.h - What a plan file says -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A plan as it stands in its file (docs/plan.md, docs/plan.schema.json),
// checked for what can be seen without a program: keys, types, counts,
// schedules. What a program must have for the plan to work is the business of
// CheckPlan.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_PLANFILE_H
#define PASSES_PLAN_PLANFILE_H

#include "dialects/dist/SharedExperts.h"
#include "passes/planner/describe/Plan.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dt::plan {

struct UnitEntry {
  std::string name;
  int64_t tp = 1, cp = 1, dp = 1, pp = 1, vpp = 1;
  int64_t ep = 1; ///< ranks that share out experts
  /// As given, rank of (pp, dp, cp, tp) at ((pp * DP + dp) * CP + cp) * TP +
  /// tp; empty: in order, until assignRanks() has filled them.
  std::vector<int64_t> ranks;
  /// Of every replica; empty: all alike.
  std::vector<int64_t> speeds;
  /// Items of each kind in a part, where the plan says so.
  std::map<std::string, int64_t> rowsMax;
  int64_t sub = 1, span = 1, zero = 0, overlap = 1;
  std::optional<int64_t> runAhead;
  bool sequenceParallel = false;
  /// How queries come by keys where `cp` cuts tokens; nothing: what sends fewer
  /// bytes.
  std::optional<rt::ContextKeys> context;
  /// Of every stage, or one for all; empty: as the program says.
  std::vector<std::string> save;
  /// Pieces of every stage; empty: the compiler cuts.
  std::vector<std::vector<std::string>> stages;
  /// Of every stage; empty: the compiler prices them.
  std::vector<planner::StageTimes> times;
  std::string timesFrom = "model";
  /// The layout that they are of, if the file says so; of another than the
  /// unit's there are no `times`.
  std::string timesOf;

  /// Whether its backwards are tasks in halves.
  bool splitsBackward(llvm::StringRef schedule) const {
    return scheduler::traitsOf(schedule).splits(
        getNumStages(), save == std::vector<std::string>{"none"});
  }
  int64_t getNumStages() const { return pp * vpp; }
  int64_t getGroup() const { return tp * cp; } ///< ranks of a replica
  /// Replicas that share out experts among them.
  int64_t getJoined() const { return dist::countJoined(ep, tp, cp); }
  int64_t getNumRanks() const { return getGroup() * dp * pp; }
  /// Parts that a microbatch is cut into.
  int64_t getNumParts() const { return dp * sub; }
  /// "units.llm.tp" for messages.
  std::string at(llvm::StringRef key) const {
    return "units." + name + "." + key.str();
  }
};

struct PlanFile {
  std::string path; ///< for messages
  int64_t ranks = 0;
  std::optional<int64_t> microbatches;
  /// Samples of a microbatch, which is no key: completePlan() says.
  int64_t micro = 1;
  std::string pace; ///< empty: the backbone
  std::vector<UnitEntry> units;
  std::string schedule; ///< of all pipelines
  /// By "module.input": microbatches whose messages are posted ahead, and ns of
  /// a message; 0: not said.
  struct EdgeEntry {
    int64_t depth = 0, message = 0;
  };
  std::map<std::string, EdgeEntry> edges;
  /// Whose devices run what the plan has no times of; empty: it does not say.
  std::string cluster;
  std::string reorder = "none";
  /// Bytes of a rank: none, one for all, or one a rank.
  std::vector<int64_t> memory;
  int64_t bucketBytes = planner::kBucketBytes, depth = 2;
  bool narrowSums = false; ///< "gradient_sums": "bf16"

  /// "plan.json: units.llm.tp: what" as an error.
  llvm::Error error(const llvm::Twine &key, const llvm::Twine &what) const;
};

/// What times of a unit depend on: "tp=2,dp=1,…". `microbatches`: of a step, if
/// the plan says.
std::string describeLayout(const UnitEntry &unit, llvm::StringRef schedule,
                           std::optional<int64_t> microbatches);

/// Reads a file. Errors name file and key.
llvm::Expected<PlanFile> readPlan(llvm::StringRef path);
llvm::Expected<PlanFile> parsePlan(llvm::StringRef json, llvm::StringRef path);
/// A plan in one line: "llm:tp=2,dp=2;vision:dp=3,ranks=0-2;schedule=gpipe".
/// Keys are those of the file; `schedule`, `ranks`, `reorder`, … of the plan
/// stand alone. Errors name `--plan` and the key.
llvm::Expected<PlanFile> parsePlanLine(llvm::StringRef line);

} // namespace dt::plan

#endif // PASSES_PLAN_PLANFILE_H
