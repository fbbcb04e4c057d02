//===- LayoutSearch.cpp - Beam search over the steps ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/LayoutSearch.h"

#include "llvm/ADT/Hashing.h"
#include <unordered_map>

using namespace dt;
using namespace dt::shard;

namespace {

/// How a frontier came about.
struct Record {
  int parent;
  unsigned choice;
};

struct Frontier {
  Masks masks;
  double cost;
  int record;
  double bound; ///< cost and an estimate of what partial sums will cost
};

/// Keeps the cheapest of equal frontiers, and the best `width` of all.
class Beam {
public:
  void add(Frontier frontier) {
    size_t hash =
        llvm::hash_combine_range(frontier.masks.begin(), frontier.masks.end());
    for (auto [it, end] = known.equal_range(hash); it != end; ++it) {
      Frontier &other = kept[it->second];
      if (other.masks == frontier.masks) {
        if (frontier.cost < other.cost)
          other = std::move(frontier);
        return;
      }
    }
    known.emplace(hash, kept.size());
    kept.push_back(std::move(frontier));
  }
  std::vector<Frontier> take(size_t width) {
    llvm::sort(kept, [](const Frontier &a, const Frontier &b) {
      return std::tie(a.bound, a.record) < std::tie(b.bound, b.record);
    });
    if (kept.size() > width)
      kept.resize(width);
    return std::move(kept);
  }

private:
  std::vector<Frontier> kept;
  std::unordered_multimap<size_t, size_t> known;
};

} // namespace

LayoutChoice dt::shard::searchLayouts(const ShardProblem &program,
                                      const CostModel &model, unsigned width) {
  std::vector<Record> records;
  std::vector<Frontier> frontiers{{model.begin(), 0, -1, 0}};
  for (unsigned i = 0; i < program.steps.size(); ++i) {
    const Step &step = program.steps[i];
    Beam beam;
    auto extend = [&](const Frontier &from, unsigned choice,
                      const Strategy *strategy) {
      Frontier next{from.masks, from.cost, 0, 0};
      next.cost += model.apply(next.masks, i, strategy);
      next.bound = next.cost + 0.5 * model.partialBytes(next.masks);
      records.push_back({from.record, choice});
      next.record = records.size() - 1;
      beam.add(std::move(next));
    };
    for (const Frontier &frontier : frontiers) {
      if (step.strategies.empty())
        extend(frontier, 0, nullptr);
      for (auto [c, strategy] : llvm::enumerate(step.strategies))
        if (model.isAllowed(frontier.masks, step, strategy))
          extend(frontier, c, &strategy);
    }
    frontiers = beam.take(width);
  }
  LayoutChoice solution;
  Frontier &best = frontiers.front();
  solution.cost = best.cost;
  solution.last = std::move(best.masks);
  for (int r = best.record; r >= 0; r = records[r].parent)
    solution.choices.push_back(records[r].choice);
  std::reverse(solution.choices.begin(), solution.choices.end());
  return solution;
}
