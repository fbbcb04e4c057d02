//===- OutlineSearch.cpp - Repeated subsequences of ops ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Candidates come from a suffix array over op fingerprints (name, attributes,
// types, kinds of operands); each candidate is then checked for equal wiring.
//
//===----------------------------------------------------------------------===//

#include "passes/modules/OutlineSearch.h"

#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"

#include <numeric>
#include <queue>
#include <tuple>

using namespace mlir;
using namespace dt;
using namespace dt::modules;

bool modules::isLeaf(Operation *op) {
  return isa<nn::ReadOp, nn::ConstantOp, nn::GenerateOp>(op);
}

namespace {

bool sameLeaf(Operation *a, Operation *b) {
  return OperationEquivalence::isEquivalentTo(
      a, b, OperationEquivalence::ignoreValueEquivalence, nullptr,
      OperationEquivalence::IgnoreLocations);
}

/// What of an op must agree before wiring is looked at.
struct Fingerprints {
  unsigned get(Operation *op) {
    llvm::hash_code h = llvm::hash_combine(
        op->getName().getAsOpaquePointer(), op->getAttrDictionary(),
        llvm::hash_combine_range(op->result_type_begin(),
                                 op->result_type_end()),
        llvm::hash_combine_range(op->operand_type_begin(),
                                 op->operand_type_end()));
    auto [it, inserted] = ids.try_emplace(h, ids.size());
    return it->second;
  }
  llvm::DenseMap<size_t, unsigned> ids;
};

/// Compares two windows op by op with their wiring.
class WindowComparer {
public:
  WindowComparer(ArrayRef<Operation *> list) : list(list) {
    for (auto [i, op] : llvm::enumerate(list))
      position[op] = i;
  }

  /// Whether the windows of `length` ops at a and b do the same. External
  /// operands must correspond one to one (the same value used twice in one is
  /// so in the other).
  bool equal(size_t a, size_t b, size_t length) {
    llvm::DenseMap<Value, Value> outside, back;
    for (size_t i = 0; i < length; ++i) {
      Operation *x = list[a + i], *y = list[b + i];
      if (!sameOp(x, y))
        return false;
      for (auto [v, w] : llvm::zip(x->getOperands(), y->getOperands()))
        if (!sameOperand(v, w, a, b, length, outside, back))
          return false;
    }
    return true;
  }

private:
  static bool sameOp(Operation *x, Operation *y) {
    return x->getName() == y->getName() && x->getNumRegions() == 0 &&
           x->getNumOperands() == y->getNumOperands() &&
           x->getAttrDictionary() == y->getAttrDictionary() &&
           x->getResultTypes() == y->getResultTypes();
  }

  bool sameOperand(Value v, Value w, size_t a, size_t b, size_t length,
                   llvm::DenseMap<Value, Value> &outside,
                   llvm::DenseMap<Value, Value> &back) {
    if (v.getType() != w.getType())
      return false;
    auto offset = [&](Value value, size_t start) -> std::optional<size_t> {
      auto it = position.find(value.getDefiningOp());
      if (it == position.end() || it->second < start ||
          it->second >= start + length)
        return std::nullopt;
      return it->second - start;
    };
    std::optional<size_t> i = offset(v, a), j = offset(w, b);
    if (i != j)
      return false;
    if (i)
      return cast<OpResult>(v).getResultNumber() ==
             cast<OpResult>(w).getResultNumber();
    Operation *p = v.getDefiningOp(), *q = w.getDefiningOp();
    bool leafP = p && isLeaf(p) && !isa<nn::ReadOp>(p),
         leafQ = q && isLeaf(q) && !isa<nn::ReadOp>(q);
    if (leafP || leafQ)
      return leafP && leafQ && sameLeaf(p, q);
    bool readP = p && isa<nn::ReadOp>(p), readQ = q && isa<nn::ReadOp>(q);
    if (readP != readQ)
      return false;
    return outside.try_emplace(v, w).first->second == w &&
           back.try_emplace(w, v).first->second == v;
  }

  ArrayRef<Operation *> list;
  llvm::DenseMap<Operation *, size_t> position;
};

/// Suffixes from `begin` to before `end` of the sorted ones begin with the same
/// `length` ops.
struct Candidate {
  size_t length, begin, end;
  /// Ops that it may remove at most; `exact`: where only windows that do not
  /// overlap count.
  size_t bound;
  bool exact = false;
};

/// Suffixes sorted by prefix doubling, then the common prefix of neighbours
/// (Kasai).
void sortSuffixes(ArrayRef<unsigned> text, std::vector<size_t> &order,
                  std::vector<size_t> &common) {
  size_t n = text.size();
  order.resize(n);
  std::vector<size_t> rank(text.begin(), text.end()), next(n);
  for (size_t i = 0; i < n; ++i)
    order[i] = i;
  for (size_t k = 1;; k *= 2) {
    auto key = [&](size_t i) {
      return std::pair<size_t, size_t>(rank[i],
                                       i + k < n ? rank[i + k] + 1 : 0);
    };
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return key(a) < key(b); });
    for (size_t i = 0; i < n; ++i)
      next[order[i]] =
          i == 0 ? 0 : next[order[i - 1]] + (key(order[i - 1]) < key(order[i]));
    rank = next;
    if (n == 0 || rank[order[n - 1]] == n - 1)
      break;
  }
  common.assign(n, 0);
  for (size_t i = 0, h = 0; i < n; ++i) {
    if (rank[i] == 0) {
      h = 0;
      continue;
    }
    size_t j = order[rank[i] - 1];
    while (i + h < n && j + h < n && text[i + h] == text[j + h])
      ++h;
    common[rank[i]] = h;
    h = h ? h - 1 : 0;
  }
}

/// Starts of non-overlapping occurrences that are truly equal to the first one.
SmallVector<size_t> verifiedStarts(WindowComparer &compare,
                                   ArrayRef<size_t> starts, size_t length) {
  SmallVector<size_t> kept;
  for (size_t s : starts)
    if (kept.empty() ||
        (s >= kept.back() + length && compare.equal(kept[0], s, length)))
      kept.push_back(s);
  return kept;
}

bool readsParameter(ArrayRef<Operation *> window) {
  return llvm::any_of(window, [](Operation *op) {
    return llvm::any_of(op->getOperands(), [](Value v) {
      return v.getDefiningOp<nn::ReadOp>() != nullptr;
    });
  });
}

/// Layers that were found before would become one: a stage begins with a call,
/// and eight layers in one could not be cut.
bool callsTwice(ArrayRef<Operation *> window) {
  llvm::SmallPtrSet<Attribute, 8> callees;
  return llvm::any_of(window, [&](Operation *op) {
    auto call = dyn_cast<func::CallOp>(op);
    return call && !callees.insert(call.getCalleeAttr()).second;
  });
}

size_t saving(size_t windows, size_t length) { return (windows - 1) * length; }

/// For every distinct common-prefix length, the groups of suffixes sharing it.
std::vector<Candidate> collectCandidates(ArrayRef<size_t> order,
                                         ArrayRef<size_t> common,
                                         unsigned minOps) {
  // A repetition's period is also a distance between neighbours, so lengths cut
  // at the smallest distance give single layers rather than pairs of layers.
  llvm::SmallSetVector<size_t, 16> lengths;
  for (size_t i = 1; i < order.size(); ++i) {
    if (common[i] < minOps)
      continue;
    lengths.insert(common[i]);
    size_t distance = order[i] > order[i - 1] ? order[i] - order[i - 1]
                                              : order[i - 1] - order[i];
    if (distance >= minOps && distance < common[i])
      lengths.insert(distance);
  }
  std::vector<Candidate> candidates;
  for (size_t length : lengths) {
    size_t begin = 0;
    for (size_t i = 1; i <= order.size(); ++i) {
      if (i < order.size() && common[i] >= length)
        continue;
      size_t most = std::min(i - begin, order.size() / length);
      if (most > 1)
        candidates.push_back({length, begin, i, saving(most, length)});
      begin = i;
    }
  }
  return candidates;
}

size_t countDisjoint(ArrayRef<size_t> starts, size_t length) {
  size_t count = 0, end = 0;
  for (size_t s : starts)
    if (count == 0 || s >= end) {
      ++count;
      end = s + length;
    }
  return count;
}
} // namespace

std::optional<Repetition> modules::findRepetition(ArrayRef<Operation *> list,
                                                  unsigned minOps) {
  Fingerprints fingerprints;
  SmallVector<unsigned> text;
  for (Operation *op : list)
    text.push_back(fingerprints.get(op));
  std::vector<size_t> order, common;
  sortSuffixes(text, order, common);
  std::vector<Candidate> candidates = collectCandidates(order, common, minOps);
  auto startsOf = [&](const Candidate &c) {
    SmallVector<size_t> starts(order.begin() + c.begin, order.begin() + c.end);
    llvm::sort(starts);
    return starts;
  };
  // The largest bound first; bounds are made exact when they get there.
  auto isBehind = [&](size_t a, size_t b) {
    const Candidate &x = candidates[a], &y = candidates[b];
    return std::tuple(x.bound, !x.exact, b) < std::tuple(y.bound, !y.exact, a);
  };
  std::vector<size_t> indices(candidates.size());
  std::iota(indices.begin(), indices.end(), 0);
  std::priority_queue<size_t, std::vector<size_t>, decltype(isBehind)> queue(
      isBehind, std::move(indices));
  WindowComparer compare(list);
  std::optional<Repetition> best;
  size_t bestSaving = 0;
  while (!queue.empty() && candidates[queue.top()].bound > bestSaving) {
    size_t index = queue.top();
    queue.pop();
    Candidate &c = candidates[index];
    SmallVector<size_t> starts = startsOf(c);
    if (!c.exact) {
      size_t n = countDisjoint(starts, c.length);
      c.bound = n < 2 ? 0 : saving(n, c.length);
      c.exact = true;
      queue.push(index);
      continue;
    }
    starts = verifiedStarts(compare, starts, c.length);
    if (starts.size() < 2 || saving(starts.size(), c.length) <= bestSaving ||
        !readsParameter(list.slice(starts[0], c.length)) ||
        callsTwice(list.slice(starts[0], c.length)))
      continue;
    bestSaving = saving(starts.size(), c.length);
    best = Repetition{c.length, starts};
  }
  return best;
}
