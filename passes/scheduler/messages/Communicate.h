//===- Communicate.h - The one order of communication -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Semantics assumed everywhere: *no buffering*. A send ends only when its
// receive has been issued, and a rank does one thing after another. That is
// what NCCL promises, and MPI programs may only be faster.
//
// A pipeline whose tasks depend on one another without a cycle can still
// deadlock under it. What cannot: one order of all messages that every rank
// follows, with each task after the messages it needs and before those it
// feeds. Proof: the least unfinished entry is next on all its ranks, and what
// it waits for is finished.
//
// Such an order is constructed by simulation: messages sorted by the time at
// which they are produced. verify() proves it for any program, also one that a
// person wrote.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_MESSAGES_COMMUNICATE_H
#define PASSES_SCHEDULER_MESSAGES_COMMUNICATE_H

#include "passes/scheduler/core/Evaluate.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace dt::scheduler {

/// All messages of a problem. Replicas with the same ranks need none, and a
/// batch-sync is a collective of its own.
class MessageTable {
public:
  struct Entry {
    Message message;
    TaskGraph::Node producer, consumer;
  };

  explicit MessageTable(const TaskGraph &graph);
  llvm::ArrayRef<Entry> getEntries() const { return entries; }
  /// Index of a message, or -1 if the problem has no such message.
  int find(const Message &message) const;

private:
  std::vector<Entry> entries; // sorted by message
};

/// The ranks that have a part in a message: senders, then who only receives.
llvm::SmallVector<int> getRanks(const TaskGraph &graph,
                                const MessageTable::Entry &entry);

/// Whether `message` can be looked at: stage, microbatch and replicas exist.
bool isWellFormed(const Problem &problem, const Message &message);

/// What a rank does for a message: send, receive, both (Exchange), or nothing.
std::optional<Instruction::Action>
getAction(const TaskGraph &graph, const MessageTable::Entry &entry, int rank);

/// Fills `programs` of a solution that evaluates.
llvm::Error communicate(const TaskGraph &graph, Solution &solution);

/// Proves that the programs finish without buffering and compute what the
/// problem says; the letters are those of the errors.
///   V1 sends and receives of two ranks match, in order, without tags
///   V2 one order of all messages and collectives exists
///   V3 ranks of a tensor-parallel replica have the same tasks
///   V4 no more messages wait in a receiver than it has buffers for
///   V5 activations in flight are within the bounds
///   V6 tasks come after what they need
///   V7 a message that does not exist (nothing to send) is on neither side
/// A violation of V2, V3 or V6 names the cycle.
llvm::Error verify(const TaskGraph &graph,
                   const std::vector<std::vector<Instruction>> &programs);

/// The tasks of programs, without messages.
Solution getTasks(const std::vector<std::vector<Instruction>> &programs);

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_MESSAGES_COMMUNICATE_H
