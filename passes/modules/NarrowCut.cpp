//===- NarrowCut.cpp - Where a part of a graph ends -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Ops of the region that lead out of it are put in order of their distance to
// an exit, farthest first; every prefix of that order is a cut. Unlike the
// order of the file it keeps a value's many late users (keys and values that a
// decoder's layers compute from the encoder's output) behind everything that
// comes before the value is done.
//
//===----------------------------------------------------------------------===//

#include "passes/modules/NarrowCut.h"

#include "passes/modules/OutlineSearch.h"

using namespace mlir;

namespace dt::modules {

namespace {

/// A cut must leave at least this part of the region's FLOPs before it.
constexpr double kWorkBefore = 0.5;
/// Of such cuts the latest that has at most so many times the bytes of the
/// narrowest one: in no more values (a projection to the width of what takes
/// them), or in more values (a pooled output beside the sequence).
constexpr double kWider = 4, kMoreValues = 1.25;
constexpr size_t kMaxCrossing = 8;
/// FLOPs for every byte that crosses.
constexpr double kFlopsPerByte = 16;
/// Ops of the shortest layer that counts as one.
constexpr unsigned kLayerOps = 5;

class Region {
public:
  Region(const ModuleGraph &graph, const ItemAnalysis &analysis,
         const Support &inputs, bool anyItems)
      : graph(graph), analysis(analysis), anyItems(anyItems),
        inside(graph.size()), rank(graph.size(), kSink) {
    for (size_t i = 0; i < graph.size(); ++i) {
      const ModuleGraph::Node &node = graph[i];
      inside[i] = !node.isCopied && node.support.any() &&
                  !Support(node.support).reset(inputs).any();
    }
    sort();
    sweep();
  }

  std::optional<Cut> choose(std::string &why);

private:
  static constexpr size_t kSink = 0; ///< rank of ops that lead to no exit
  struct Prefix {
    double bytes, flops;
    int64_t values;
    bool fits; ///< few values, that may go over an edge
  };

  void sort();
  void sweep();
  void rankSinks();
  bool mayCross(Value value) const;
  bool isStream(Value value, size_t rankOfCut);
  bool hasStream(size_t prefix);
  SmallVector<Value> crossing(size_t prefix) const;
  Cut make(size_t prefix) const;
  /// Rank of the last op in the region that takes `value`; beyond all if one
  /// outside does.
  size_t lastUse(Value value) const;

  const ModuleGraph &graph;
  const ItemAnalysis &analysis;
  bool anyItems;
  std::vector<bool> inside;
  std::vector<size_t> order; ///< ops that lead to an exit
  std::vector<bool> leads;
  std::vector<size_t> rank; ///< the first prefix that has the op
  std::vector<Prefix> prefixes;
  double total = 0;
  llvm::DenseMap<Value, size_t> streams; ///< rank of the last op of a stream
};

void Region::sort() {
  std::vector<size_t> distance(graph.size());
  leads.assign(graph.size(), false);
  for (size_t i = graph.size(); i-- > 0;) {
    if (!inside[i])
      continue;
    total += graph[i].flops;
    for (Value result : graph[i].op->getResults())
      graph.forUsers(result, [&](size_t user) {
        if (!inside[user]) {
          leads[i] = true;
        } else if (leads[user]) {
          leads[i] = true;
          distance[i] = std::max(distance[i], distance[user] + 1);
        }
      });
    if (leads[i])
      order.push_back(i);
  }
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::make_pair(distance[b], a) < std::make_pair(distance[a], b);
  });
  for (auto [k, i] : llvm::enumerate(order))
    rank[i] = k + 1;
}

/// What leads nowhere (an output, a loss) goes with what it is computed from.
void Region::rankSinks() {
  for (size_t i = 0; i < graph.size(); ++i)
    if (inside[i] && !leads[i])
      graph.forOperands(i, [&](size_t operand) {
        rank[i] = std::max(rank[i], rank[operand]);
      });
}

size_t Region::lastUse(Value value) const {
  size_t last = 0;
  graph.forUsers(value, [&](size_t user) {
    if (!inside[user])
      last = order.size() + 1;
    else if (leads[user])
      last = std::max(last, rank[user]);
  });
  return last;
}

bool Region::mayCross(Value value) const {
  if (!isa<FloatType>(getElementTypeOrSelf(value)))
    return false;
  if (anyItems)
    return true;
  const ItemState &state = analysis.get(value);
  return state.is(ItemState::Invariant) ||
         (state.is(ItemState::PerItem) && state.axis == 0 &&
          state.major == nn::DimExpr(1));
}

/// Bytes, FLOPs and number of values of every prefix, in one pass: a value
/// crosses from its op to its last user.
void Region::sweep() {
  rankSinks();
  size_t n = order.size() + 2;
  std::vector<double> bytes(n), flops(n);
  std::vector<int64_t> values(n), unfit(n);
  for (size_t i = 0; i < graph.size(); ++i) {
    if (!inside[i])
      continue;
    flops[rank[i]] += graph[i].flops;
    for (Value result : graph[i].op->getResults()) {
      size_t last = lastUse(result);
      if (!leads[i] || last <= rank[i])
        continue;
      bytes[rank[i]] += graph.getBytes(result);
      bytes[last] -= graph.getBytes(result);
      values[rank[i]] += 1;
      values[last] -= 1;
      if (!mayCross(result)) {
        unfit[rank[i]] += 1;
        unfit[last] -= 1;
      }
    }
  }
  double b = 0, f = 0;
  int64_t v = 0, u = 0;
  for (size_t k = 0; k <= order.size(); ++k) {
    b += bytes[k];
    f += flops[k];
    v += values[k];
    u += unfit[k];
    prefixes.push_back({b, f, v, u == 0 && v <= int64_t(kMaxCrossing)});
  }
}

SmallVector<Value> Region::crossing(size_t prefix) const {
  SmallVector<Value> values;
  for (size_t k = 0; k < prefix; ++k)
    for (Value result : graph[order[k]].op->getResults())
      if (lastUse(result) > prefix)
        values.push_back(result);
  return values;
}

bool Region::isStream(Value value, size_t prefix) {
  auto [it, isNew] = streams.try_emplace(value, 0);
  if (isNew)
    for (size_t use : graph.getStreamUses(value))
      it->second =
          std::max(it->second, inside[use] ? rank[use] : order.size() + 1);
  return it->second > prefix;
}

bool Region::hasStream(size_t prefix) {
  return llvm::any_of(crossing(prefix),
                      [&](Value value) { return isStream(value, prefix); });
}

Cut Region::make(size_t prefix) const {
  Cut cut;
  for (size_t i = 0; i < graph.size(); ++i)
    if (inside[i] && rank[i] <= prefix)
      cut.ops.push_back(i);
  cut.crossing = crossing(prefix);
  cut.bytes = prefixes[prefix].bytes;
  cut.flops = prefixes[prefix].flops;
  return cut;
}

std::optional<Cut> Region::choose(std::string &why) {
  if (order.empty())
    return total > 0 ? std::optional(make(0)) : std::nullopt;
  SmallVector<size_t> candidates;
  for (size_t k = 1; k <= order.size(); ++k)
    if (prefixes[k].fits && prefixes[k].flops >= kWorkBefore * total &&
        prefixes[k].flops >= kFlopsPerByte * prefixes[k].bytes)
      candidates.push_back(k);
  if (candidates.empty()) {
    why = "hands over too much";
    return std::nullopt;
  }
  llvm::sort(candidates, [&](size_t a, size_t b) {
    return std::make_pair(prefixes[a].bytes, a) <
           std::make_pair(prefixes[b].bytes, b);
  });
  auto narrowest =
      llvm::find_if(candidates, [&](size_t k) { return !hasStream(k); });
  if (narrowest == candidates.end()) {
    why = "is the beginning of a stack of layers that goes on";
    return std::nullopt;
  }
  const Prefix least = prefixes[*narrowest];
  // Most work first, then fewest bytes, then the earliest.
  llvm::sort(candidates, [&](size_t a, size_t b) {
    return std::make_tuple(-prefixes[a].flops, prefixes[a].bytes, a) <
           std::make_tuple(-prefixes[b].flops, prefixes[b].bytes, b);
  });
  for (size_t k : candidates) {
    double limit = prefixes[k].values <= least.values ? kWider : kMoreValues;
    if (prefixes[k].bytes <= limit * least.bytes && !hasStream(k))
      return make(k);
  }
  return std::nullopt;
}

} // namespace

std::optional<Cut> findNarrowCut(const ModuleGraph &graph,
                                 const ItemAnalysis &analysis,
                                 const Support &inputs, bool anyItems,
                                 std::string &why) {
  return Region(graph, analysis, inputs, anyItems).choose(why);
}

bool hasEqualLayers(const ModuleGraph &graph, ArrayRef<size_t> ops) {
  SmallVector<Operation *> list;
  for (size_t i : ops)
    list.push_back(graph[i].op);
  auto repetition = modules::findRepetition(list, kLayerOps);
  if (!repetition)
    return false;
  // The second must depend on the first: layers side by side are no stack.
  llvm::DenseSet<Operation *> depends;
  size_t first = repetition->starts[0], second = repetition->starts[1];
  for (size_t k = first; k < second + repetition->length; ++k) {
    bool isFirst = k < first + repetition->length;
    if (isFirst || llvm::any_of(list[k]->getOperands(), [&](Value v) {
          return depends.contains(v.getDefiningOp());
        })) {
      depends.insert(list[k]);
      if (k >= second)
        return true;
    }
  }
  return false;
}

} // namespace dt::modules
