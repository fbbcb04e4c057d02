//===- LaneSearch.cpp - Search over waves and blocks ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/schedule/LaneSearch.h"

#include "passes/schedule/Evaluate.h"
#include "passes/schedule/Waves.h"

#include "llvm/ADT/STLExtras.h"

#include <random>

using namespace llvm;

namespace dt::schedule {

LaneSearch::LaneSearch(const Graph &graph, const std::vector<Bytes> &memory,
                       Incumbent &incumbent)
    : graph(graph), incumbent(incumbent), lanes(Lanes::get(graph, memory)) {}

bool LaneSearch::consider(std::optional<LaneResult> result, Cost &least) {
  incumbent.left -= graph.getNumNodes();
  if (!result)
    return false;
  Cost cost = incumbent.getCost(result->wall, result->longestSpan);
  if (cost < incumbent.cost) {
    incumbent.cost = cost;
    incumbent.best = result->getSolution(*lanes);
  }
  if (cost > least)
    return false;
  least = cost;
  return true;
}

void LaneSearch::searchWaves() {
  if (!lanes || !Waves::applies(*lanes))
    return;
  Waves waves(*lanes);
  WavePolicy policy;
  Cost least = kWorst;
  policy.fill.wall = incumbent.objective == Objective::Wall;
  auto tryAll = [&] {
    for (bool fillShort : {false, true})
      for (bool delayFirst : {true, false})
        for (bool skipForwards : {false, true}) {
          if (incumbent.isDone() || (fillShort && policy.fill.target))
            return;
          policy.delayFirst = delayFirst;
          policy.skipForwards = skipForwards;
          policy.fill.fillShort = fillShort;
          consider(waves.run(policy), least);
        }
  };
  tryAll();
  Time low = incumbent.bound;
  for (int step = 0;
       step < 6 && !incumbent.isDone() && low < least.first && least != kWorst;
       ++step) {
    policy.fill.target = low + (least.first - low) / 2;
    Time before = least.first;
    tryAll();
    if (least.first == before)
      low = policy.fill.target;
  }
}

namespace {

/// Forwards and gradients of an order as they start.
std::vector<std::tuple<Time, Time, Graph::Node>>
getSequence(const Graph &graph, const Timeline &timeline) {
  std::vector<std::tuple<Time, Time, Graph::Node>> sequence;
  for (Graph::Node node = 0; node < graph.getNumNodes(); ++node)
    if (graph.getSlotOf(node) != Graph::kWeight && timeline.start[node] >= 0)
      sequence.emplace_back(timeline.start[node], timeline.end[node], node);
  llvm::sort(sequence);
  return sequence;
}

} // namespace

bool LaneSearch::fill(ArrayRef<std::tuple<Time, Time, Graph::Node>> sequence,
                      const FillPolicy &policy, Cost &least) {
  LaneRun run(*lanes, policy);
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
  FillPolicy policy;
  policy.wall = incumbent.objective == Objective::Wall;
  if (fill(sequence, policy, least)) {
    policy.target = incumbent.cost.first - 1;
    fill(sequence, policy, least);
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
  FillPolicy policy;
  policy.wall = incumbent.objective == Objective::Wall;
  Time low = incumbent.bound, high = incumbent.cost.first;
  Cost least = kWorst;
  for (int step = 0; step < 10 && low < high && !incumbent.isDone(); ++step) {
    policy.fillShort = step == 0;
    policy.target = step < 2 ? 0 : low + (high - low) / 2;
    if (!fill(sequence, policy, least))
      return;
    if (incumbent.cost.first < high)
      high = incumbent.cost.first;
    else if (step >= 2)
      low = policy.target;
  }
}

void LaneSearch::tryBlock(const BlockPolicy &policy) {
  if (lanes && consider(Blocks(*lanes).run(policy), blockCost))
    block = policy;
}

/// Slack of up to two tasks on hops of each kind, four in all, with the least
/// periods that memory allows; shorter ones first.
std::vector<BlockPolicy> LaneSearch::listBlocks(const Blocks &blocks) {
  // With more than two rounds all are alike.
  int rounds = blocks.getNumRounds(), varied = std::min(rounds, 2),
      unit = 128 / rounds, count = varied == 1 ? 9 : 81;
  std::vector<BlockPolicy> policies;
  for (int code = 0; code < 4 * count && !incumbent.isDone(); ++code) {
    BlockPolicy policy;
    policy.together = code % 2;
    policy.even = code / 2 % 2;
    for (int round = 0; round < rounds; ++round) {
      int rest = code / 4 / (round % varied ? 9 : 1);
      policy.forward.push_back(rest % 3 * unit);
      policy.gradient.push_back(rest / 3 % 3 * unit);
    }
    int sum = 0;
    for (int round = 0; round < varied; ++round)
      sum += policy.forward[round] + policy.gradient[round];
    if (sum > 4 * unit)
      continue;
    policy.period = blocks.getPeriod(policy, incumbent.left);
    if (policy.period)
      policies.push_back(policy);
  }
  std::vector<int> order(policies.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = int(i);
  llvm::sort(order, [&](int a, int b) {
    return std::make_pair(policies[a].period, a) <
           std::make_pair(policies[b].period, b);
  });
  std::vector<BlockPolicy> best;
  for (int i : order)
    if (best.size() < 80)
      best.push_back(policies[i]);
  return best;
}

void LaneSearch::searchBlocks() {
  if (!lanes || incumbent.isDone())
    return;
  Blocks blocks(*lanes);
  auto tryAll = [&](const std::vector<BlockPolicy> &policies, int fill) {
    for (BlockPolicy policy : policies) {
      if (incumbent.isDone())
        return;
      policy.fill.fillShort = fill == 2;
      policy.fill.wall = fill == 0;
      if (consider(blocks.run(policy), blockCost))
        block = policy;
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
    BlockPolicy policy = *block;
    int move = int(random() % 8);
    if (move == 0) {
      bool *flags[] = {&policy.fill.fillShort, &policy.fill.wall,
                       &policy.together, &policy.even};
      bool &flag = *flags[random() % 4];
      flag = !flag;
    } else if (move == 1) {
      policy.fill.wall = incumbent.objective == Objective::Wall;
      policy.fill.target =
          incumbent.bound +
          Time(random() % 1024) * (blockCost.first - incumbent.bound) / 1024;
    } else if (move == 2) {
      policy.period = std::max(384, policy.period + int(random() % 65) - 32);
    } else {
      for (int i = 0; i <= move % 3; ++i) {
        std::vector<int> &table =
            random() % 2 ? policy.forward : policy.gradient;
        int &slack = table[random() % table.size()];
        slack = std::max(-unit, slack + int(random() % (2 * unit + 1)) - unit);
      }
      policy.period = 384;
      policy.period = blocks.getPeriod(policy, incumbent.left);
      if (!policy.period)
        continue;
    }
    if (consider(blocks.run(policy), blockCost))
      block = policy;
  }
}

} // namespace dt::schedule
