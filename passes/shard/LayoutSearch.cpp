//===- LayoutSearch.cpp - Beam search over the steps ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/LayoutSearch.h"

#include "llvm/Support/xxhash.h"

#include <numeric>

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
  double cost = 0;
  int record = -1;
  double bound = 0; ///< cost and an estimate of what partial sums will cost
};

/// Keeps the cheapest of equal frontiers, and the best `width` of all. Room for
/// masks is used again: there are many frontiers, and most of them are dropped.
class Beam {
public:
  explicit Beam(Masks begin) : taken(1) { taken[0].masks = std::move(begin); }

  llvm::ArrayRef<Frontier> getTaken() const {
    return llvm::ArrayRef(taken).take_front(numTaken);
  }
  /// A copy to work on; add() adds it.
  Frontier &copy(const Frontier &from) {
    if (numAdded == added.size())
      added.emplace_back();
    return added[numAdded] = from;
  }
  void add() {
    const Frontier &frontier = added[numAdded];
    size_t hash = llvm::xxh3_64bits(
        llvm::ArrayRef(reinterpret_cast<const uint8_t *>(frontier.masks.data()),
                       frontier.masks.size() * sizeof(Mask)));
    hash >>= 1; // the greatest are no keys of a DenseMap
    auto [first, isNew] = known.try_emplace(hash, unsigned(numAdded));
    size_t last = first->second;
    for (size_t i = last; !isNew; i = following[i]) {
      if (added[i].masks == frontier.masks) {
        if (frontier.cost < added[i].cost)
          std::swap(added[i], added[numAdded]);
        return;
      }
      last = i;
      if (following[i] == i)
        break;
    }
    if (!isNew)
      following[last] = unsigned(numAdded);
    following.push_back(unsigned(numAdded++));
  }
  void take(size_t width) {
    std::vector<unsigned> order(numAdded);
    std::iota(order.begin(), order.end(), 0u);
    llvm::sort(order, [&](unsigned a, unsigned b) {
      return std::tie(added[a].bound, added[a].record) <
             std::tie(added[b].bound, added[b].record);
    });
    numTaken = std::min<size_t>(numAdded, width);
    taken.resize(std::max(taken.size(), numTaken));
    for (auto [to, from] :
         llvm::zip(taken, llvm::ArrayRef(order).take_front(numTaken)))
      std::swap(to, added[from]);
    numAdded = 0;
    following.clear();
    known.clear();
  }

private:
  std::vector<Frontier> taken, added; ///< what comes behind is room
  size_t numTaken = 1, numAdded = 0;
  llvm::DenseMap<size_t, unsigned> known; ///< the first of a hash
  std::vector<unsigned> following; ///< the next of its hash; itself: the last
};

} // namespace

LayoutChoice dt::shard::searchLayouts(const ShardProblem &program,
                                      const CostModel &model, unsigned width) {
  std::vector<Record> records;
  Beam beam(model.begin());
  for (unsigned i = 0; i < program.steps.size(); ++i) {
    const Step &step = program.steps[i];
    auto extend = [&](const Frontier &from, unsigned choice,
                      const Strategy *strategy) {
      Frontier &next = beam.copy(from);
      next.cost += model.apply(next.masks, i, strategy);
      next.bound = next.cost + 0.5 * model.partialBytes(next.masks);
      records.push_back({from.record, choice});
      next.record = int(records.size()) - 1;
      beam.add();
    };
    for (const Frontier &frontier : beam.getTaken()) {
      if (step.strategies.empty())
        extend(frontier, 0, nullptr);
      for (auto [c, strategy] : llvm::enumerate(step.strategies))
        if (model.isAllowed(frontier.masks, step, strategy))
          extend(frontier, c, &strategy);
    }
    beam.take(width);
  }
  LayoutChoice solution;
  const Frontier &best = beam.getTaken().front();
  solution.cost = best.cost;
  solution.last = best.masks;
  for (int r = best.record; r >= 0; r = records[r].parent)
    solution.choices.push_back(records[r].choice);
  std::reverse(solution.choices.begin(), solution.choices.end());
  return solution;
}
