//===- DualPipeV.cpp - DualPipe on two stages a rank in V shape -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// DeepSeek-V3 (arXiv 2412.19437, section 3.2.1) feeds a pipeline from both
// ends; "cut in half" (DualPipe-V) each rank has one copy of the parameters: of
// p ranks the i-th runs stages i and 2p - 1 - i, first and second below. Second
// forwards start as soon as microbatches come back, then a forward of one stage
// and a backward of the other take turns; where the pipeline drains, weight
// gradients wait and fill the gaps. A closed form for at least 2p - 1
// microbatches.
//
// Units with one stage a rank run 1F1B around it. Where another unit follows,
// so many more microbatches go forward first as that runs ahead.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/search/Lines.h"

#include "llvm/ADT/Twine.h"

namespace dt::scheduler {

namespace {

/// Writes one replica's line of a rank.
class Writer {
public:
  Writer(const TaskGraph &graph, const std::vector<int> &stages, int index,
         int replica)
      : graph(graph) {
    int of[2] = {stages[index], stages[stages.size() - 1 - index]};
    for (int side : {0, 1}) {
      places[side] = graph.getPlace(of[side], replica);
      splits[side] = graph.canSplit(of[side]);
    }
  }

  void forward(int side) {
    line.push_back(
        graph.getNode(places[side], TaskGraph::kForward, numForwards[side]++));
  }
  /// `late`: its weight gradient comes when weights() is called.
  void backward(int side, bool late = false) {
    int k = numBackwards[side]++;
    line.push_back(graph.getNode(places[side], TaskGraph::kGradient, k));
    if (late && splits[side])
      waiting.push_back(graph.getNode(places[side], TaskGraph::kWeight, k));
  }
  /// The first `count` that wait.
  void weights(size_t count) {
    for (; count > 0 && next < waiting.size(); --count)
      line.push_back(waiting[next++]);
  }
  Line take() {
    weights(waiting.size());
    return std::move(line);
  }

private:
  const TaskGraph &graph;
  int places[2], numForwards[2] = {0, 0}, numBackwards[2] = {0, 0};
  bool splits[2];
  std::vector<TaskGraph::Node> waiting;
  size_t next = 0;
  Line line;
};

/// Tasks of rank `index` of `ranks`. `extra`: microbatches that go forward
/// beside those of a unit that nothing follows.
Line makeLine(Writer writer, int microbatches, int ranks, int index,
              int extra) {
  int behind = ranks - 1 - index, pairs = index + 1 + extra;
  auto times = [](int count, auto body) {
    for (int i = 0; i < count; ++i)
      body(i);
  };
  times(2 * behind, [&](int) { writer.forward(0); });
  times(pairs, [&](int) {
    writer.forward(0);
    writer.forward(1);
  });
  times(behind, [&](int) {
    writer.backward(1, /*late=*/true);
    writer.weights(1);
    writer.forward(1);
  });
  times(microbatches - 2 * behind - pairs, [&](int) {
    writer.forward(0);
    writer.backward(1);
    writer.forward(1);
    writer.backward(0);
  });
  times(behind, [&](int) {
    writer.backward(1);
    writer.forward(1);
    writer.backward(0);
  });
  // From the middle on, in turn on neighbouring ranks.
  bool late = false;
  times(pairs, [&](int i) {
    late |= i == pairs / 2 && index % 2;
    writer.backward(1, late);
    late |= i == pairs / 2;
    writer.backward(0, late);
  });
  times(behind, [&](int) {
    writer.weights(1);
    writer.backward(0, /*late=*/true);
  });
  return writer.take();
}

} // namespace

static llvm::Expected<Solution> solveDualPipeV(const TaskGraph &graph,
                                               const SolveOptions &) {
  const Problem &problem = graph.getProblem();
  auto units = getStagesThereAndBack(problem, "dualpipe-v");
  if (!units)
    return units.takeError();
  std::vector<Line> lines;
  std::vector<int> given(problem.stages.size(), 0);
  for (const std::vector<int> &stages : *units) {
    int ranks = int(stages.size() / 2), n = problem.microbatches;
    const Unit &unit = problem.units[problem.stages[stages[0]].unit];
    int extra = getNeeds(problem, stages, getInFlight(problem)).back() - 1 +
                unit.getRunAhead();
    if (n < 2 * ranks - 1 + extra)
      return llvm::createStringError("dualpipe-v: expected at least " +
                                     llvm::Twine(2 * ranks - 1 + extra) +
                                     " microbatches for " + llvm::Twine(ranks) +
                                     " ranks of " + unit.name);
    for (int index = 0; index < ranks; ++index) {
      int second = int(stages.size()) - 1 - index;
      for (size_t r = 0; r < problem.stages[stages[index]].replicas.size(); ++r)
        lines.push_back(makeLine(Writer(graph, stages, index, int(r)), n, ranks,
                                 index, extra));
      given[stages[index]] = 2 * ranks - 1 - index + extra;
      given[stages[second]] = index + 1 + extra;
    }
  }
  appendOneFOneB(graph, given, lines);
  return mergeLines(graph, lines);
}

void addDualPipeV(Registry &registry) {
  registry.add("dualpipe-v",
               "DualPipe on two stages a rank in V shape, in a closed form",
               solveDualPipeV,
               {.splitsBackward = true, .goesBack = true, .planned = true});
}

} // namespace dt::scheduler
