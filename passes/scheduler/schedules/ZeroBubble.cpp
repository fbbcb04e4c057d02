//===- ZeroBubble.cpp - Split backwards, the order found by search --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 3: given
// the times of F, B, W and of messages and a limit on memory, find an order
// with little bubble. `zb` takes the problem's own bounds; `zb-1p` and `zb-2p`
// the memory of 1F1B on its fullest rank, once and twice, as in the paper.
// `zb-v` is zb on stages that go back the way they came ("Pipeline
// Parallelism with Controllable Memory", 2024): every rank has the same amount
// of memory in use, and the first gradient starts where the first forward did.
// Without bounds of the problem it has the memory of 1F1B.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/search/Lines.h"
#include "passes/scheduler/search/ZeroBubbleSearch.h"

namespace dt::scheduler {

static llvm::Expected<Solution> solveZeroBubble(const TaskGraph &graph,
                                                const SolveOptions &options) {
  return searchZeroBubble(graph, graph.getProblem().memory, options);
}

/// In `times` the memory of 1F1B.
template <int times>
static llvm::Expected<Solution> solveInMemory(const TaskGraph &graph,
                                              const SolveOptions &options) {
  return searchZeroBubble(graph, getRelativeMemory(graph, 16 * times), options);
}

static llvm::Expected<Solution> solveZeroBubbleV(const TaskGraph &graph,
                                                 const SolveOptions &options) {
  if (auto units = getStagesThereAndBack(graph.getProblem(), "zb-v"); !units)
    return units.takeError();
  const std::vector<Bytes> &memory = graph.getProblem().memory;
  return searchZeroBubble(
      graph, memory.empty() ? getRelativeMemory(graph, 16) : memory, options);
}

void addZeroBubble(Registry &registry) {
  registry.add(
      "zb", "zero bubble by search within the problem's memory",
      solveZeroBubble,
      {.splitsBackward = true, .order = OrderOf::Search, .planned = true});
  // Within the devices' memory `zb` does as well or better.
  registry.add("zb-1p", "zero bubble by search in the memory of 1F1B",
               solveInMemory<1>,
               {.splitsBackward = true, .order = OrderOf::Search});
  registry.add("zb-2p", "zero bubble by search in twice the memory of 1F1B",
               solveInMemory<2>,
               {.splitsBackward = true, .order = OrderOf::Search});
  registry.add("zb-v",
               "zero bubble by search on two stages a rank in V shape, in the "
               "memory of 1F1B",
               solveZeroBubbleV,
               {.splitsBackward = true,
                .goesBack = true,
                .order = OrderOf::Search,
                .planned = true});
}

} // namespace dt::scheduler
