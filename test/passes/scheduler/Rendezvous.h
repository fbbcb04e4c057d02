//===- Rendezvous.h - Runs programs without any buffering -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Every rank does its list one after another. A message happens when it is the
// next entry of all ranks that take part; a task of several ranks likewise.
// This shares no code with the verifier.
//
//===----------------------------------------------------------------------===//

#ifndef TEST_PASSES_SCHEDULE_RENDEZVOUS_H
#define TEST_PASSES_SCHEDULE_RENDEZVOUS_H

#include "passes/scheduler/core/Problem.h"

#include <set>
#include <string>

namespace dt::scheduler {

/// "" if all lists finish, else what the ranks stand at.
inline std::string
runRendezvous(const Problem &problem,
              const std::vector<std::vector<Instruction>> &programs) {
  std::vector<size_t> at(programs.size(), 0);
  auto ranksOf = [&](const Instruction &step) {
    std::set<int> ranks;
    auto add = [&](int stage, int replica) {
      const std::vector<int> &list = problem.stages[stage].replicas[replica];
      ranks.insert(list.begin(), list.end());
    };
    if (step.action == Instruction::Run) {
      add(step.task.stage, step.task.replica);
      return ranks;
    }
    const Edge &edge = problem.edges[step.message.edge];
    add(step.message.gradient ? edge.to : edge.from, step.message.from);
    add(step.message.gradient ? edge.from : edge.to, step.message.to);
    return ranks;
  };
  auto same = [](const Instruction &a, const Instruction &b) {
    if ((a.action == Instruction::Run) != (b.action == Instruction::Run))
      return false;
    return a.action == Instruction::Run ? a.task == b.task
                                        : a.message == b.message;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < programs.size(); ++rank)
      while (at[rank] < programs[rank].size()) {
        const Instruction &step = programs[rank][at[rank]];
        std::set<int> ranks = ranksOf(step);
        bool all = true;
        for (int other : ranks)
          all &= at[other] < programs[other].size() &&
                 same(programs[other][at[other]], step);
        if (!all)
          break;
        for (int other : ranks)
          ++at[other];
        moved = true;
      }
  }
  std::string stuck;
  for (size_t rank = 0; rank < programs.size(); ++rank)
    if (at[rank] < programs[rank].size()) {
      const Instruction &step = programs[rank][at[rank]];
      stuck +=
          "rank " + std::to_string(rank) + ": " +
          (step.action == Instruction::Run ? getName(problem, step.task)
                                           : getName(problem, step.message)) +
          "; ";
    }
  return stuck;
}

} // namespace dt::scheduler

#endif // TEST_PASSES_SCHEDULE_RENDEZVOUS_H
