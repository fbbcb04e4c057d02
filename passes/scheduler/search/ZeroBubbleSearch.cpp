//===- ZeroBubbleSearch.cpp - Zero-bubble orders by search ----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/search/ZeroBubbleSearch.h"

#include "passes/scheduler/core/Evaluate.h"
#include "passes/scheduler/search/Greedy.h"
#include "passes/scheduler/search/LaneSearch.h"
#include "passes/scheduler/search/Lines.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <map>
#include <random>

using namespace llvm;

namespace dt::scheduler {

namespace {

/// Tasks that a search places unless told otherwise, tens of milliseconds: this
/// often all of the problem's, within limits, but so often at least.
constexpr int64_t kTries = 140, kLeast = 700000, kMost = 900000,
                  kLeastTries = 44;
/// With fewer tries only list schedules and blocks on grids are tried.
constexpr int64_t kThorough = 32;
/// The part of a search, in 1/16, that is kept for what makes the best order
/// better.
constexpr int64_t kPolish = 5;

/// Search over rules of the list scheduler.
class GreedySearch {
public:
  GreedySearch(const TaskGraph &graph, const std::vector<Bytes> &memory,
               Incumbent &incumbent, LaneSearch *lanes)
      : graph(graph), problem(graph.getProblem()), memory(memory),
        incumbent(incumbent), lanes(lanes) {
    findCaps();
  }

  /// Whether a rank with several stages has memory for clearly fewer
  /// microbatches than 1F1B has on their way.
  bool isTight() const;
  void searchLoose();
  void searchGrid();
  void climb();
  void tryRules(const GreedyRules &rules);
  /// A closed order, if it fits.
  void tryOrder(Solution solution);
  const GreedyRules &getRules() const { return bestRules; }

private:
  void findCaps();
  /// Levels of 1F1B plus `slope`/1024 for each stage behind a stage, as far as
  /// memory goes.
  std::vector<int> getLevels(int slope) const;
  void consider(Solution solution, const GreedyRules *rules);
  int getExactSlope() const;
  int getNaturalSlope() const;
  /// Rules next to the best one.
  GreedyRules vary(std::mt19937 &random) const;

  const TaskGraph &graph;
  const Problem &problem;
  const std::vector<Bytes> &memory;
  Incumbent &incumbent;
  LaneSearch *lanes; ///< null: rules are taken as they are
  GreedyRules bestRules;
  Cost rulesCost = kWorst;
  /// Per place: activations of one microbatch; per rank: the bound.
  std::vector<Bytes> bytes;
  std::vector<int> base;
  std::vector<Bytes> forKept; ///< per rank: what late slots leave
};

/// Bytes of a late slot of each place of a rank.
Bytes getLate(const TaskGraph &graph, int rank) {
  Bytes late = 0;
  for (int place : graph.getPlacesOfRank(rank))
    late += graph.getLargestSlots(place).late;
  return late;
}

void GreedySearch::findCaps() {
  for (size_t rank = 0; rank < memory.size(); ++rank)
    forKept.push_back(memory[rank] - getLate(graph, int(rank)));
  std::vector<int> inFlight = getInFlight(problem);
  for (int place = 0; place < graph.getNumPlaces(); ++place) {
    int stage = graph.getPlaceInfo(place).stage;
    bool sync = problem.stages[stage].batchSync;
    bytes.push_back(sync ? 0 : graph.getMostActivation(place));
    base.push_back(inFlight[stage]);
  }
}

std::vector<int> GreedySearch::getLevels(int slope) const {
  std::vector<int> levels;
  for (int level : base)
    levels.push_back(level + (level - 1) * slope / 1024);
  if (memory.empty())
    return levels;
  // Places of a rank share its bound; the one with the most gives way.
  for (int rank = 0; rank < problem.ranks; ++rank) {
    ArrayRef<int> places = graph.getPlacesOfRank(rank);
    while (true) {
      Bytes sum = 0;
      int highest = -1;
      for (int place : places) {
        sum += levels[place] * bytes[place];
        if (bytes[place] && levels[place] > 1 &&
            (highest < 0 || levels[place] > levels[highest]))
          highest = place;
      }
      if (sum <= forKept[rank] || highest < 0)
        break;
      --levels[highest];
    }
  }
  return levels;
}

int GreedySearch::getExactSlope() const {
  // The deepest stage uses all of its rank's memory.
  int deepest = int(std::max_element(base.begin(), base.end()) - base.begin());
  if (memory.empty() || !bytes[deepest] || base[deepest] < 2)
    return 1024;
  Bytes others = 0;
  int rank = graph.getRanks(deepest)[0];
  for (int place : graph.getPlacesOfRank(rank))
    others += place == deepest ? 0 : bytes[place] * base[place];
  Bytes spare = (forKept[rank] - others) / bytes[deepest] - base[deepest];
  return int(std::clamp<Bytes>(
      (spare * 1024 + base[deepest] - 2) / (base[deepest] - 1), 0, 4096));
}

int GreedySearch::getNaturalSlope() const {
  // As many forwards as there is time for until the first gradient comes back.
  Time forward = 0, rest = 0;
  for (int place = 0; place < graph.getNumPlaces(); ++place) {
    forward += graph.getTime(graph.getNode(place, TaskGraph::kForward, 0));
    rest += graph.getTime(graph.getNode(place, TaskGraph::kGradient, 0));
  }
  for (const Edge &edge : problem.edges)
    rest += 2 * edge.latency;
  return forward ? int(std::min<Time>(4096, rest * 1024 / forward)) : 1024;
}

void GreedySearch::consider(Solution solution, const GreedyRules *rules) {
  Expected<Timeline> timeline = evaluate(graph, solution);
  if (!timeline)
    return consumeError(timeline.takeError());
  Cost own = incumbent.getCost(timeline->wall, timeline->longestSpan),
       cost = own;
  // Rules are as good as their forwards and gradients.
  if (lanes && rules && !incumbent.isDone() &&
      cost.first - cost.first / 32 < incumbent.cost.first)
    cost = std::min(cost, lanes->refillOnce(*timeline));
  if (rules && cost <= rulesCost) {
    rulesCost = cost;
    bestRules = *rules;
  }
  if (own < incumbent.cost) {
    incumbent.cost = own;
    incumbent.best = std::move(solution);
  }
}

void GreedySearch::tryRules(const GreedyRules &rules) {
  incumbent.left -= graph.getNumNodes();
  if (std::optional<Solution> solution = runGreedy(graph, memory, rules))
    consider(std::move(*solution), &rules);
}

void GreedySearch::tryOrder(Solution solution) {
  Problem bounded = problem;
  bounded.memory = memory;
  TaskGraph boundedGraph(bounded);
  if (Error error = checkMemory(boundedGraph, solution))
    return consumeError(std::move(error));
  consider(std::move(solution), nullptr);
}

bool GreedySearch::isTight() const {
  for (int rank = 0; rank < problem.ranks && !memory.empty(); ++rank) {
    Bytes sum = 0;
    for (int place : graph.getPlacesOfRank(rank))
      sum += std::min(base[place], problem.microbatches) * bytes[place];
    if (graph.getPlacesOfRank(rank).size() > 1 && forKept[rank] < sum - sum / 4)
      return true;
  }
  return false;
}

void GreedySearch::searchLoose() {
  // Without levels: backwards first, forwards as memory allows.
  GreedyRules loose;
  for (int patience : {0, 4, 8}) {
    loose.patience = loose.tailPatience = patience;
    tryRules(loose);
    if (incumbent.isDone())
      return;
  }
}

void GreedySearch::searchGrid() {
  if (incumbent.isDone())
    return;
  // With several stages on a rank, whether early forwards make way for later
  // stages' and use up what memory there is matters more than the slope.
  bool shared = false;
  for (int rank = 0; rank < problem.ranks; ++rank)
    shared |= graph.getPlacesOfRank(rank).size() > 1;
  std::vector<int> slopes = {
      getExactSlope(), 0, getNaturalSlope(), 256, 512, 768, 1024, 1152, 1280};
  if (shared)
    slopes = {0, getExactSlope(), 1024};
  for (int slope : slopes)
    for (int hold : {16, 0})
      for (bool full : {true, false})
        for (int patience : {4, 0, 8, 16}) {
          if (incumbent.isDone())
            return;
          if (!shared && (hold || full))
            continue;
          GreedyRules rules;
          rules.patience = rules.tailPatience = patience;
          rules.hold = hold;
          rules.level = getLevels(slope);
          if (full)
            rules.warmup.assign(graph.getNumPlaces(), problem.microbatches);
          rules.rank.assign(graph.getNumPlaces(), 0);
          tryRules(rules);
        }
}

GreedyRules GreedySearch::vary(std::mt19937 &random) const {
  int places = graph.getNumPlaces(), move = int(random() % 10);
  GreedyRules rules = bestRules;
  if (rules.level.empty())
    rules.level = getLevels(0);
  if (move == 0) {
    rules.patience = int(random() % 25);
  } else if (move == 1) {
    rules.tailPatience = int(random() % 25);
  } else if (move < 4) {
    rules.wall = incumbent.objective == Objective::Wall;
    rules.target = incumbent.bound + Time(random() % 1024) *
                                         (rulesCost.first - incumbent.bound) /
                                         1024;
    rules.patience = rules.tailPatience = 16;
  } else {
    int first = int(random() % places),
        last = move < 7 ? first : int(random() % places);
    if (first > last)
      std::swap(first, last);
    int step = random() % 2 ? 1 : -1;
    for (int place = first; place <= last; ++place)
      rules.level[place] = std::max(1, rules.level[place] + step);
  }
  return rules;
}

void GreedySearch::climb() {
  std::mt19937 random(1); // the same everywhere
  while (rulesCost != kWorst && !incumbent.isDone())
    tryRules(vary(random));
}

/// The problem with its first microbatches only: levels found for it hold for
/// all, since the middle of a schedule repeats.
Problem shorten(const Problem &problem, int microbatches) {
  Problem result = problem;
  result.microbatches = microbatches;
  result.syncGroup = std::min(problem.syncGroup, microbatches);
  auto cut = [&](Table &table) {
    size_t size = table.values.size(), n = size_t(problem.microbatches);
    if (size > 1 && size % n == 0)
      table.values.resize(size / n * microbatches);
  };
  for (Stage &stage : result.stages) {
    for (auto [name, table] : kTables)
      cut(stage.*table);
    if (stage.late)
      cut(*stage.late);
  }
  for (Edge &edge : result.edges) {
    bool had = !edge.routes.empty();
    llvm::erase_if(edge.routes, [&](const Route &route) {
      return route.microbatch >= microbatches;
    });
    if (had && edge.routes.empty()) // none is not "all": one harmless message
      edge.routes.push_back({0, 0, 0, 0});
  }
  return result;
}

/// All parts of the search, on the whole problem or a shorter one. With little
/// effort, blocks on grids and list schedules only: those are of use after a
/// few tries.
class ZeroBubbleSearch {
public:
  ZeroBubbleSearch(const TaskGraph &graph, const std::vector<Bytes> &memory,
                   Incumbent &incumbent, bool thorough)
      : graph(graph), incumbent(incumbent), thorough(thorough),
        lanes(graph, memory, incumbent),
        search(graph, memory, incumbent, thorough ? &lanes : nullptr) {}

  void begin(bool waves) {
    if (thorough)
      lanes.searchGrids();
    else
      beginQuickly();
    if (!incumbent.best || !incumbent.isDone())
      search.searchLoose();
    if (waves && thorough)
      lanes.searchWaves();
  }
  /// Under tight memory a block is all there is time for.
  void beginQuickly() {
    lanes.searchGridsQuickly();
    if (!lanes.getBlock() || incumbent.isProved() || search.isTight())
      return;
    Cost before = incumbent.cost;
    GreedyRules loose;
    loose.patience = loose.tailPatience = 4;
    search.tryRules(loose);
    if (incumbent.cost < before)
      lanes.improveBest(1);
  }
  void run() {
    // Something is left for blocks, which tight memory needs.
    int64_t kept = thorough ? incumbent.left / 2 : 0;
    incumbent.left -= kept;
    search.searchGrid();
    incumbent.left += kept;
    if (thorough) {
      lanes.refill();
      lanes.searchBlocks();
      lanes.climbBlocks();
    }
    search.climb();
  }
  /// What was found for a shorter problem.
  void take(const ZeroBubbleSearch &shorter) {
    if (shorter.incumbent.best)
      search.tryRules(shorter.search.getRules());
    if (shorter.lanes.getBlock())
      lanes.tryBlock(*shorter.lanes.getBlock());
  }
  void end() {
    if (thorough) {
      lanes.refill();
      lanes.improveBest(3);
      lanes.nudge();
    }
    // Several stages of a rank take turns otherwise than those say.
    if (lanes.hasRounds() && lanes.getBlock())
      return;
    search.tryOrder(mergeSplitOneFOneB(graph, 1)); // H1
    search.tryOrder(mergeSplitOneFOneB(graph, 2)); // H2
    // Blocks have been pushed; what others found may have gaps.
    if (!thorough && !incumbent.isProved())
      lanes.improveBest(2);
    if (!incumbent.best)
      search.tryOrder(takeTurns(graph, /*split=*/true));
  }

private:
  const TaskGraph &graph;
  Incumbent &incumbent;
  bool thorough;
  LaneSearch lanes;
  GreedySearch search;
};

/// Microbatches after which the middle of a schedule repeats.
int countEnough(const TaskGraph &graph) {
  const Problem &problem = graph.getProblem();
  std::vector<int> depths = problem.getDepths();
  // Stages on one rank share its microbatches.
  size_t rounds = 1;
  for (int rank = 0; rank < problem.ranks; ++rank)
    rounds = std::max(rounds, graph.getPlacesOfRank(rank).size());
  return 3 * *std::max_element(depths.begin(), depths.end()) / int(rounds);
}

} // namespace

Expected<Solution> searchZeroBubble(const TaskGraph &graph,
                                    const std::vector<Bytes> &memory,
                                    const SolveOptions &options) {
  const Problem &problem = graph.getProblem();
  int64_t nodes = graph.getNumNodes(),
          effort = options.effort
                       ? options.effort
                       : std::max(std::clamp(kTries * nodes, kLeast, kMost),
                                  kLeastTries * nodes);
  bool thorough = effort >= kThorough * nodes;
  int64_t spare = thorough ? effort * kPolish / 16 : 0;
  Incumbent incumbent(graph, memory, options.objective, effort - spare);
  ZeroBubbleSearch parts(graph, memory, incumbent, thorough);
  parts.begin(/*waves=*/true);
  int enough = countEnough(graph);
  if (!incumbent.isDone() && enough * 2 < problem.microbatches) {
    Problem shorter = shorten(problem, enough);
    TaskGraph shorterGraph(shorter);
    Incumbent first(shorterGraph, memory, options.objective, effort / 2);
    ZeroBubbleSearch firstParts(shorterGraph, memory, first, thorough);
    firstParts.begin(/*waves=*/false);
    firstParts.run();
    parts.take(firstParts);
  }
  parts.run();
  incumbent.left = spare;
  parts.end();
  bool synced = any_of(problem.stages,
                       [](const Stage &stage) { return stage.batchSync; });
  if (!incumbent.best)
    return createStringError(
        (synced ? "what is kept before the batch-sync does not fit into the "
                : "not even one microbatch fits into the ") +
        Twine("bytes of activations that ranks may hold"));
  return std::move(*incumbent.best);
}

std::vector<Bytes> getRelativeMemory(const TaskGraph &graph, int factor) {
  const Problem &problem = graph.getProblem();
  std::vector<int> inFlight = getInFlight(problem);
  // Virtual stages of a unit together hold what one stage of their size would.
  struct Held {
    Bytes sum = 0;
    int chunks = 0, highest = 0;
  };
  Bytes most = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    std::map<int, Held> units;
    for (int place : graph.getPlacesOfRank(rank)) {
      int stage = graph.getPlaceInfo(place).stage;
      if (problem.stages[stage].batchSync)
        continue;
      // Gradients of inputs may leave more than the forward kept.
      Bytes bytes = 0;
      for (int k = 0; k < problem.microbatches; ++k) {
        int node = graph.getNode(place, TaskGraph::kForward, k);
        bytes = std::max({bytes, graph.getActivation(node),
                          graph.getWeightActivation(node)});
      }
      Held &unit = units[problem.stages[stage].unit];
      unit.sum += bytes;
      unit.highest = std::max(unit.highest, inFlight[stage]);
      ++unit.chunks;
    }
    Bytes bytes = 0;
    for (auto &[index, unit] : units)
      bytes += unit.sum * llvm::divideCeil(unit.highest, unit.chunks);
    most = std::max(most, bytes);
  }
  std::vector<Bytes> memory;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    memory.push_back(most * factor / 16 + getLate(graph, rank));
    if (!problem.memory.empty())
      memory[rank] = std::min(memory[rank], problem.memory[rank]);
  }
  return memory;
}

} // namespace dt::scheduler
