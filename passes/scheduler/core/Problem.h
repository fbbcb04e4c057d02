//===- Problem.h - What is to be scheduled ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One training step of a model that is cut over ranks: stages, the edges that
// carry activations forward and gradients back, n microbatches, and what each
// piece of work costs. Nothing here knows IR, a network or a clock, so that the
// compiler, the planner and the tests schedule the same thing.
//
// Conventions
// - Stages form a DAG, not a chain: an edge may skip stages (UNet skips,
//   conditioning) and stages of several modules are in one problem.
// - A stage has one or more data-parallel replicas. Microbatch k is what all
//   replicas of all stages work on at place k; a replica's share may be empty.
// - A *rank* is whoever has one list of work. A replica that is tensor-parallel
//   names all its ranks; they run its tasks together. Where nobody else runs on
//   them one rank may stand for the group.
// - Stages on the same rank are virtual stages (one unit) or colocated
// (several).
// - Times and bytes are integers of any unit: schedules must be equal on all
//   machines, and sums of integers are.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_CORE_PROBLEM_H
#define PASSES_SCHEDULER_CORE_PROBLEM_H

#include "llvm/Support/Error.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace dt::scheduler {

using Time = int64_t;
inline constexpr Time kNever = std::numeric_limits<Time>::max();
using Bytes = int64_t;

/// Values by microbatch and replica: one for all, one a microbatch (n), or one
/// a pair ([microbatch * replicas + replica]). Of a unit with a span: of its
/// tasks, by their first microbatch.
struct Table {
  std::vector<int64_t> values{0};

  Table() = default;
  Table(int64_t value) : values{value} {}
  Table(std::vector<int64_t> values) : values(std::move(values)) {}

  int64_t at(int microbatch, int replica, int microbatches,
             int replicas) const {
    if (values.size() == 1)
      return values[0];
    if (int(values.size()) == microbatches)
      return values[microbatch];
    return values[size_t(microbatch) * replicas + replica];
  }
};

/// A part of a module that runs as one piece.
struct Stage {
  std::string name;
  /// Index into Problem::units.
  int unit = 0;
  /// The ranks of every replica; one rank each unless tensor-parallel.
  std::vector<std::vector<int>> replicas;

  /// Time of the forward, of the gradient of inputs, and of the gradient of
  /// weights. A backward that is not split takes the sum of the last two.
  Table forward, input, weight;
  /// Bytes that a forward keeps on each of the replica's ranks, and the part of
  /// them that the weight gradient still needs after the input gradient.
  Table activation, weightActivation;
  /// Of `weightActivation`, what the gradient of inputs makes. Where stages say
  /// it, ranks need room for slots (Footprint.h); else bytes add up.
  std::optional<Table> late;
  /// Without a backward (nothing trainable at or before the stage) what the
  /// forward keeps is free when it ends. Without a weight gradient (frozen) the
  /// backward is the input gradient only.
  bool hasBackward = true, hasWeight = true;
  /// The stage's only task is the batch-sync of a contrastive loss: its inputs
  /// of a whole group of microbatches, all replicas of the producers together.
  /// One replica that names all their ranks; no stage follows it.
  bool batchSync = false;
  /// Most microbatches in flight (forward run, backward not); 0: no bound.
  int slots = 0;
};
inline constexpr std::pair<const char *, Table Stage::*> kTables[] = {
    {"forward", &Stage::forward},
    {"input", &Stage::input},
    {"weight", &Stage::weight},
    {"activation", &Stage::activation},
    {"weightActivation", &Stage::weightActivation}};

/// A module: stages that follow one another.
struct Unit {
  std::string name;
  /// Microbatches that its forwards run ahead of what the schedule asks for.
  /// Where no gradient comes back nothing else bounds them: at most so many
  /// wait for the forwards that use them.
  std::optional<int> runAhead;
  /// Microbatches that one of its tasks serves; the last task may serve fewer.
  int span = 1;

  int getRunAhead() const { return runAhead.value_or(0); }
};

/// A message of one microbatch between two replicas, in forward direction.
struct Route {
  int microbatch = -1;  ///< -1: every microbatch
  int from = 0, to = 0; ///< replicas of Edge::from and Edge::to
  Time latency = 0;
};

struct Edge {
  int from = 0, to = 0; ///< stages
  /// From the end of the producer to the earliest start of the consumer; takes
  /// no rank's time. Nothing where both replicas have the same ranks.
  Time latency = 0;
  /// Whether a gradient comes back.
  bool gradient = true;
  /// Messages that exist. Empty: one to one where both ends have equally many
  /// replicas, else from each to each (a broker). With routes, pairs that are
  /// not named have nothing to send, and no dependence.
  std::vector<Route> routes;
  /// Microbatches whose messages a receiving replica has buffers for, each way;
  /// 0: no bound. The next transfer starts when the oldest has been used.
  int receiveDepth = 0;
};

struct Problem {
  std::vector<Unit> units;
  std::vector<Stage> stages;
  std::vector<Edge> edges;
  int ranks = 0;
  int microbatches = 0;
  /// Bytes of activations that a rank may hold; empty: no bound.
  std::vector<Bytes> memory;
  /// Microbatches of one batch-sync; 0: all.
  int syncGroup = 0;

  /// Names one thing that is wrong, if any: references, cycles, table sizes,
  /// negative times, a batch-sync that is not last.
  llvm::Error check() const;

  int getSpan(int stage) const { return units[stages[stage].unit].span; }
  /// The first microbatch of the stage's task that serves this one.
  int getFirst(int stage, int microbatch) const {
    return microbatch - microbatch % getSpan(stage);
  }
  int getGroupSize() const { return syncGroup > 0 ? syncGroup : microbatches; }
  int getNumGroups() const {
    return (microbatches + getGroupSize() - 1) / getGroupSize();
  }
  int getGroup(int microbatch) const {
    return syncGroup > 0 ? microbatch / syncGroup : 0;
  }
  /// Stages, producers first; stages that do not depend on one another in the
  /// order of their index.
  std::vector<int> getTopologicalOrder() const;
  /// Per stage: stages on the longest path to a sink, itself included.
  std::vector<int> getDepths() const;
};

/// What a task does. The letters are the ones of pictures and IR.
enum class Kind : uint8_t {
  Forward,  ///< F
  Backward, ///< B: gradients of inputs and of weights
  Input,    ///< I: gradients of inputs only
  Weight,   ///< W: gradients of weights only
  Sync      ///< S: batch-sync
};
char getLetter(Kind kind);

struct Task {
  Kind kind = Kind::Forward;
  int stage = 0;
  int microbatch = 0; ///< the first that it serves; a group if kind is Sync
  int replica = 0;

  bool operator==(const Task &other) const {
    return std::tie(kind, stage, microbatch, replica) ==
           std::tie(other.kind, other.stage, other.microbatch, other.replica);
  }
};
/// "F llm.0 mb 3", with " replica 1" where the stage has several.
std::string getName(const Problem &problem, const Task &task);

/// One message: activations of Edge::from to Edge::to or, as `gradient`, back.
struct Message {
  int edge = 0;
  bool gradient = false;
  int microbatch = 0;   ///< the first of the task at the end that is served
  int from = 0, to = 0; ///< replicas of the sending and the receiving stage

  bool operator==(const Message &other) const { return key() == other.key(); }
  bool operator<(const Message &other) const { return key() < other.key(); }

private:
  std::tuple<int, bool, int, int, int> key() const {
    return {edge, gradient, microbatch, from, to};
  }
};
/// "enc -> llm.0 mb 3", "gradient llm.0 -> enc mb 3".
std::string getName(const Problem &problem, const Message &message);

/// One entry of a rank's list once messages are in it.
struct Instruction {
  enum Action : uint8_t { Run, Send, Receive, Exchange } action = Run;
  Task task;       ///< Run
  Message message; ///< the others; Exchange: the rank is on both sides

  bool operator==(const Instruction &other) const {
    return action == other.action &&
           (action == Run ? task == other.task : message == other.message);
  }
};

/// Who does what in which order.
struct Solution {
  /// Per rank: its tasks in order.
  std::vector<std::vector<Task>> ranks;
  /// Every rank's list with its sends and receives, each a subsequence of one
  /// order of all messages. Filled by communicate().
  std::vector<std::vector<Instruction>> programs;
};

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_CORE_PROBLEM_H
