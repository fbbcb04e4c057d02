//===- LaneSearch.cpp - Search over waves and blocks ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/search/LaneSearch.h"

#include "passes/scheduler/core/Evaluate.h"
#include "passes/scheduler/search/Waves.h"

#include "llvm/ADT/STLExtras.h"

#include <random>

using namespace llvm;

namespace dt::scheduler {

LaneSearch::LaneSearch(const TaskGraph &graph, const std::vector<Bytes> &memory,
                       Incumbent &incumbent)
    : graph(graph), incumbent(incumbent), lanes(Lanes::get(graph, memory)) {}

bool LaneSearch::hasRounds() const {
  return lanes && any_of(lanes->places, [](const std::vector<int> &places) {
           return places.size() > 1;
         });
}

bool LaneSearch::consider(const std::optional<LaneResult> &result,
                          Cost &least) {
  incumbent.left -= graph.getNumNodes();
  if (!result)
    return false;
  Cost cost = incumbent.getCost(result->wall, result->longestSpan);
  if (cost < incumbent.cost) {
    Solution solution = result->getSolution(*lanes);
    if (!lanes->holds(solution))
      return false;
    incumbent.cost = cost;
    incumbent.best = std::move(solution);
  }
  if (cost > least)
    return false;
  least = cost;
  return true;
}

bool LaneSearch::improve(const LaneResult &result, int rounds, Cost &least) {
  Justify justify(*lanes);
  if (!justify.take(result.lists))
    return false;
  bool any = false;
  for (int round = 0; round < rounds && !incumbent.isProved() &&
                      (!round || incumbent.left > 0);
       ++round) {
    incumbent.left -= graph.getNumNodes(); // the way back
    if (!justify.run())
      return any;
    Cost before = least;
    any |= consider(justify.getResult(), least);
    if (round && least == before)
      break;
  }
  return any;
}

std::vector<std::vector<TaskGraph::Node>>
LaneSearch::getLists(const Solution &order) const {
  std::vector<std::vector<TaskGraph::Node>> lists;
  for (const std::vector<int> &places : lanes->places) {
    lists.emplace_back();
    for (const Task &task : order.ranks[graph.getRanks(places[0])[0]])
      lists.back().push_back(graph.getNode(task));
  }
  return lists;
}

void LaneSearch::improveBest(int rounds) {
  if (!lanes || !incumbent.best)
    return;
  LaneResult result;
  result.lists = getLists(*incumbent.best);
  Cost least = incumbent.cost;
  improve(result, rounds, least);
}

void LaneSearch::nudge() {
  if (!lanes || !incumbent.best)
    return;
  std::mt19937 random(1); // the same everywhere
  // Pushing shortens the wall; a span that is as long may follow.
  int64_t kept = incumbent.objective == Objective::Span ? incumbent.left / 2
                                                        : incumbent.left;
  if (kept != incumbent.left)
    nudge(Objective::Wall, kept, random);
  nudge(incumbent.objective, 0, random);
}

void LaneSearch::nudge(Objective objective, int64_t left,
                       std::mt19937 &random) {
  auto draw = [&](int count) { return int(random() % count); };
  auto drawRange = [&](int count, int &first, int &last) {
    first = draw(count);
    last = draw(2) ? count - 1 : draw(count);
    if (draw(2))
      first = 0;
    if (first > last)
      std::swap(first, last);
  };
  Time step = 0;
  size_t rounds = 1;
  for (int lane = 0; lane < lanes->getNumLanes(); ++lane) {
    step = std::max(step, lanes->busy[lane] / graph.getNumMicrobatches());
    rounds = std::max(rounds, lanes->places[lane].size());
  }
  Justify justify(*lanes);
  auto lists = getLists(*incumbent.best);
  Cost least = incumbent.cost, any = kWorst;
  if (objective != incumbent.objective)
    std::swap(least.first, least.second);
  while (!incumbent.isDone() && incumbent.left > left) {
    Nudge nudge;
    nudge.slot = TaskGraph::Slot(draw(3));
    nudge.round = draw(int(rounds));
    drawRange(lanes->getNumLanes(), nudge.firstLane, nudge.lastLane);
    drawRange(graph.getNumMicrobatches(), nudge.firstMicrobatch,
              nudge.lastMicrobatch);
    // Mostly a little, at times far.
    nudge.by = step * (draw(512) - 256) / 512 * (draw(4) ? 1 : 4);
    bool late = draw(2);
    incumbent.left -= 2 * graph.getNumNodes();
    if (!justify.take(lists))
      return;
    if (!justify.run(late ? &nudge : nullptr, late ? nullptr : &nudge))
      continue;
    LaneResult result = justify.getResult();
    consider(result, any);
    Cost cost = objective == Objective::Wall
                    ? Cost(result.wall, result.longestSpan)
                    : Cost(result.longestSpan, result.wall);
    if (cost > least)
      continue;
    least = cost;
    lists = std::move(result.lists);
  }
}

void LaneSearch::searchWaves() {
  if (!lanes || !Waves::applies(*lanes))
    return;
  Waves waves(*lanes);
  WaveRules rules;
  Cost least = kWorst;
  rules.fill.wall = incumbent.objective == Objective::Wall;
  auto tryAll = [&] {
    for (bool fillShort : {false, true})
      for (bool delayFirst : {true, false})
        for (bool skipForwards : {false, true}) {
          if (incumbent.isDone() || (fillShort && rules.fill.target))
            return;
          rules.delayFirst = delayFirst;
          rules.skipForwards = skipForwards;
          rules.fill.fillShort = fillShort;
          consider(waves.run(rules), least);
        }
  };
  tryAll();
  Time low = incumbent.bound;
  for (int step = 0;
       step < 6 && !incumbent.isDone() && low < least.first && least != kWorst;
       ++step) {
    rules.fill.target = low + (least.first - low) / 2;
    Time before = least.first;
    tryAll();
    if (least.first == before)
      low = rules.fill.target;
  }
}

namespace {

/// Forwards and gradients of an order as they start.
std::vector<std::tuple<Time, Time, TaskGraph::Node>>
getSequence(const TaskGraph &graph, const Timeline &timeline) {
  std::vector<std::tuple<Time, Time, TaskGraph::Node>> sequence;
  for (TaskGraph::Node node = 0; node < graph.getNumNodes(); ++node)
    if (graph.getSlotOf(node) != TaskGraph::kWeight &&
        timeline.start[node] >= 0)
      sequence.emplace_back(timeline.start[node], timeline.end[node], node);
  llvm::sort(sequence);
  return sequence;
}

} // namespace

bool LaneSearch::fill(
    ArrayRef<std::tuple<Time, Time, TaskGraph::Node>> sequence,
    const FillRules &rules, Cost &least) {
  LaneRun run(*lanes, rules);
  for (auto [start, end, node] : sequence)
    if (!run.append(graph.getPlaceOf(node), graph.getSlotOf(node)))
      return false;
  consider(run.finish(), least);
  return true;
}

Cost LaneSearch::refillOnce(const Timeline &timeline) {
  Cost least = kWorst;
  if (!lanes)
    return least;
  auto sequence = getSequence(graph, timeline);
  FillRules rules;
  rules.wall = incumbent.objective == Objective::Wall;
  if (fill(sequence, rules, least)) {
    rules.target = incumbent.cost.first - 1;
    fill(sequence, rules, least);
  }
  return least;
}

void LaneSearch::refill() {
  if (!lanes || !incumbent.best || incumbent.isDone())
    return;
  Expected<Timeline> timeline = evaluate(graph, *incumbent.best);
  if (!timeline)
    return consumeError(timeline.takeError());
  auto sequence = getSequence(graph, *timeline);
  FillRules rules;
  rules.wall = incumbent.objective == Objective::Wall;
  Time low = incumbent.bound, high = incumbent.cost.first;
  Cost least = kWorst;
  for (int step = 0; step < 10 && low < high && !incumbent.isDone(); ++step) {
    rules.fillShort = step == 0;
    rules.target = step < 2 ? 0 : low + (high - low) / 2;
    if (!fill(sequence, rules, least))
      return;
    if (incumbent.cost.first < high)
      high = incumbent.cost.first;
    else if (step >= 2)
      low = rules.target;
  }
}

void LaneSearch::tryBlock(const BlockRules &rules) {
  if (lanes)
    tryBlock(Blocks(*lanes), rules, 1);
}

void LaneSearch::tryBlock(const Blocks &blocks, const BlockRules &rules,
                          int rounds) {
  std::optional<LaneResult> result = blocks.run(rules);
  bool better = consider(result, blockCost);
  if (result && hasRounds()) {
    Cost cost = incumbent.getCost(result->wall, result->longestSpan);
    rawCost = std::min(rawCost, cost);
    if (cost.first - cost.first / 32 <= rawCost.first)
      better |= improve(*result, rounds, blockCost);
  }
  if (better)
    block = rules;
}

std::vector<BlockRules> LaneSearch::listGrids(const Blocks &blocks) {
  // Each part has one place for what goes there and one for what goes back:
  // fewer parts than rounds have too few, many take long.
  int rounds = blocks.getNumRounds();
  std::vector<BlockRules> ruleSets;
  for (int grid = rounds; grid <= 3 * rounds; ++grid) {
    BlockRules rules;
    rules.forward.assign(rounds, 0);
    rules.gradient.assign(rounds, 0);
    rules.grid = grid;
    rules.period = blocks.getPeriod(rules, incumbent.left);
    if (rules.period)
      ruleSets.push_back(rules);
  }
  llvm::sort(ruleSets, [](const BlockRules &a, const BlockRules &b) {
    return std::make_pair(a.period, a.grid) < std::make_pair(b.period, b.grid);
  });
  return ruleSets;
}

void LaneSearch::searchGrids() {
  if (!hasRounds() || incumbent.isDone())
    return;
  Blocks blocks(*lanes);
  // Most is left for others, which wide memory needs.
  int64_t kept = incumbent.left / 8 * 7;
  int count = 0;
  for (BlockRules rules : listGrids(blocks))
    for (bool fillShort : {true, false}) {
      if (incumbent.isDone() || count == 6 ||
          (count >= 2 && incumbent.left < kept))
        return;
      ++count;
      rules.fill.fillShort = fillShort;
      tryBlock(blocks, rules, 3);
    }
}

void LaneSearch::searchGridsQuickly() {
  if (!hasRounds())
    return;
  Blocks blocks(*lanes);
  std::optional<LaneResult> best;
  int count = 0;
  for (BlockRules rules : listGrids(blocks)) {
    rules.fill.fillShort = true;
    std::optional<LaneResult> result = blocks.run(rules);
    if (consider(result, blockCost)) {
      block = rules;
      best = std::move(result);
    }
    if (++count == 3)
      break;
  }
  if (best)
    improve(*best, 2, blockCost);
}

/// Slack of up to two tasks on hops of each kind, four in all, with the least
/// periods that memory allows; shorter ones first.
std::vector<BlockRules> LaneSearch::listBlocks(const Blocks &blocks) {
  // With more than two rounds all are alike.
  int rounds = blocks.getNumRounds(), varied = std::min(rounds, 2),
      unit = 128 / rounds, count = varied == 1 ? 9 : 81;
  std::vector<BlockRules> ruleSets;
  for (int code = 0; code < 4 * count && !incumbent.isDone(); ++code) {
    BlockRules rules;
    rules.together = code % 2;
    rules.even = code / 2 % 2;
    for (int round = 0; round < rounds; ++round) {
      int rest = code / 4 / (round % varied ? 9 : 1);
      rules.forward.push_back(rest % 3 * unit);
      rules.gradient.push_back(rest / 3 % 3 * unit);
    }
    int sum = 0;
    for (int round = 0; round < varied; ++round)
      sum += rules.forward[round] + rules.gradient[round];
    if (sum > 4 * unit)
      continue;
    rules.period = blocks.getPeriod(rules, incumbent.left);
    if (rules.period)
      ruleSets.push_back(rules);
  }
  llvm::stable_sort(ruleSets, [](const BlockRules &a, const BlockRules &b) {
    return a.period < b.period;
  });
  ruleSets.resize(std::min<size_t>(ruleSets.size(), 80));
  return ruleSets;
}

void LaneSearch::searchBlocks() {
  if (!lanes || incumbent.isDone())
    return;
  Blocks blocks(*lanes);
  auto tryAll = [&](const std::vector<BlockRules> &ruleSets, int fill) {
    for (BlockRules rules : ruleSets) {
      if (incumbent.isDone())
        return;
      rules.fill.fillShort = fill == 2;
      rules.fill.wall = fill == 0;
      tryBlock(blocks, rules, 1);
    }
  };
  tryAll(listBlocks(blocks), 0);
  for (int fill = 1; fill < 3 && block; ++fill)
    tryAll({*block}, fill);
}

void LaneSearch::climbBlocks() {
  if (!block)
    return;
  // Whoever has the best order has more of what is left.
  int64_t left = incumbent.left / (blockCost == incumbent.cost ? 8 : 2);
  Blocks blocks(*lanes);
  std::mt19937 random(1); // the same everywhere
  int unit = 128 / blocks.getNumRounds();
  while (!incumbent.isDone() && incumbent.left > left) {
    BlockRules rules = *block;
    int move = int(random() % 8);
    if (move == 0) {
      bool *flags[] = {&rules.fill.fillShort, &rules.fill.wall, &rules.together,
                       &rules.even};
      bool &flag = *flags[random() % 4];
      flag = !flag;
    } else if (move == 1) {
      rules.fill.wall = incumbent.objective == Objective::Wall;
      rules.fill.target =
          incumbent.bound +
          Time(random() % 1024) * (blockCost.first - incumbent.bound) / 1024;
    } else if (move == 2) {
      rules.period = std::max(384, rules.period + int(random() % 65) - 32);
    } else {
      for (int i = 0; i <= move % 3; ++i) {
        std::vector<int> &table = random() % 2 ? rules.forward : rules.gradient;
        int &slack = table[random() % table.size()];
        slack = std::max(-unit, slack + int(random() % (2 * unit + 1)) - unit);
      }
      rules.period = 384;
      rules.period = blocks.getPeriod(rules, incumbent.left);
      if (!rules.period)
        continue;
    }
    tryBlock(blocks, rules, 1);
  }
}

} // namespace dt::scheduler
