//===- Slots.cpp - Where a microbatch's residuals are ---------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Intervals on one line: taking the lowest free slot colours them with as many
// slots as there are intervals at the densest point.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Slots.h"

#include "llvm/ADT/Twine.h"

#include <map>

using namespace llvm;

namespace dt::scheduler {

namespace {

bool hasSlot(const TaskGraph &graph, const Instruction &step) {
  return step.action == Instruction::Run &&
         graph.getProblem().stages[step.task.stage].hasBackward;
}

/// Whether a task is the last one of its microbatch on its stage.
bool isLast(const TaskGraph &graph, const Task &task) {
  return task.kind == Kind::Weight || task.kind == Kind::Backward ||
         (task.kind == Kind::Input && !graph.exists(graph.getNode(task) + 1));
}

} // namespace

std::vector<int> assignSlots(const TaskGraph &graph,
                             const std::vector<Instruction> &program) {
  std::vector<int> slots(program.size(), -1);
  std::map<int, std::map<int, int>> held; // place -> slot -> microbatch
  for (size_t i = 0; i < program.size(); ++i) {
    if (!hasSlot(graph, program[i]))
      continue;
    const Task &task = program[i].task;
    std::map<int, int> &used = held[graph.getPlace(task.stage, task.replica)];
    int slot = 0;
    if (task.kind == Kind::Forward) {
      while (used.count(slot))
        ++slot;
      used[slot] = task.microbatch;
    } else {
      for (auto [other, microbatch] : used)
        if (microbatch == task.microbatch)
          slot = other;
      if (isLast(graph, task))
        used.erase(slot);
    }
    slots[i] = slot;
  }
  return slots;
}

Error checkSlots(const TaskGraph &graph,
                 const std::vector<Instruction> &program,
                 const std::vector<int> &slots) {
  const Problem &problem = graph.getProblem();
  std::map<std::pair<int, int>, int> held; // (place, slot) -> microbatch
  for (size_t i = 0; i < program.size(); ++i) {
    if (slots[i] == -1)
      continue;
    const Task &task = program[i].task;
    if (!hasSlot(graph, program[i]))
      return createStringError(getName(problem, task) +
                               ": keeps nothing, hence has no slot");
    int bound = problem.stages[task.stage].slots;
    if (slots[i] < 0 || (bound && slots[i] >= bound))
      return createStringError(getName(problem, task) + ": slot " +
                               Twine(slots[i]) + "; the stage has " +
                               Twine(bound));
    auto key =
        std::make_pair(graph.getPlace(task.stage, task.replica), slots[i]);
    if (task.kind == Kind::Forward) {
      auto [it, free] = held.insert({key, task.microbatch});
      if (!free)
        return createStringError(getName(problem, task) + ": slot " +
                                 Twine(slots[i]) + " still holds microbatch " +
                                 Twine(it->second));
      continue;
    }
    auto it = held.find(key);
    if (it == held.end() || it->second != task.microbatch)
      return createStringError(getName(problem, task) + ": slot " +
                               Twine(slots[i]) +
                               " does not hold its microbatch");
    if (isLast(graph, task))
      held.erase(it);
  }
  return Error::success();
}

} // namespace dt::scheduler
