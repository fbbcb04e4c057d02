//===- RowSlots.cpp - Which slot each row of a step uses --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Pieces of microbatches in flight need buffers of their own. Which rows use
// them is known once all rows of a rank stand in order, so slots are given out
// in a walk over them.
//
//===----------------------------------------------------------------------===//

#include "passes/lower/RankRows.h"

#include <map>
#include <set>

using namespace mlir;
using namespace dt;
using namespace dt::lower;
using rt::TaskKind;

namespace {

/// A slot from the first to the last row that uses it: the lowest free one, so
/// there are as many as are in use at once.
class SlotAssigner {
public:
  SlotAssigner(StepPlan &plan, std::vector<Row> &rows)
      : plan(plan), rows(rows) {}

  void run() {
    for (size_t i = 0; i < rows.size(); ++i)
      forEachUse(rows[i], [&](Key key, int64_t *) {
        auto [it, fresh] = lives.insert({key, Life{i, i, 0}});
        it->second.last = i;
      });
    for (size_t i = 0; i < rows.size(); ++i) {
      forEachUse(rows[i], [&](Key key, int64_t *field) {
        Life &life = lives[key];
        if (life.first == i)
          allocate(key, life);
        if (field)
          *field = life.slot;
      });
      forEachUse(rows[i], [&](Key key, int64_t *) {
        if (lives[key].last == i)
          used[{key.module, key.received}].erase(lives[key].slot);
      });
    }
  }

private:
  struct Key {
    unsigned module;
    bool received;
    int64_t microbatch, piece;
    bool operator<(const Key &other) const {
      return std::tie(module, received, microbatch, piece) <
             std::tie(other.module, other.received, other.microbatch,
                      other.piece);
    }
  };
  struct Life {
    size_t first, last;
    int64_t slot;
  };

  /// Calls f with every slot that the row uses, and where the row names it.
  void forEachUse(Row &row, function_ref<void(Key, int64_t *)> f) {
    auto part = [&](unsigned module, bool received) {
      const PlannedModule &m = plan.modules[module];
      return m.wholeBatch
                 ? Key{module, received, 0, 0}
                 : Key{module, received, m.getFirst(row.microbatch), row.piece};
    };
    switch (row.kind) {
    case TaskKind::Denominator:
    case TaskKind::Reduce:
      return;
    case TaskKind::Forward:
    case TaskKind::Backward:
    case TaskKind::BackwardInput:
    case TaskKind::BackwardWeight:
      f(part(row.index, false), &row.slot);
      if (!plan.modules[row.index].in.empty())
        f(part(row.index, true), &row.received);
      return;
    case TaskKind::Receive:
    case TaskKind::Send:
    case TaskKind::Copy:
      break;
    }
    const PlannedEdge &edge = plan.edges[row.index];
    if (row.kind == TaskKind::Copy) {
      // From `slot` to `peer`.
      f(part(edge.from, false), row.gradient ? &row.peer : &row.slot);
      f(part(edge.to, !row.gradient), row.gradient ? &row.slot : &row.peer);
    } else if (row.kind == TaskKind::Receive) {
      f(part(row.gradient ? edge.from : edge.to, !row.gradient), &row.slot);
    } else {
      f(part(row.gradient ? edge.to : edge.from, false), &row.slot);
    }
  }

  void allocate(Key key, Life &life) {
    std::set<int64_t> &taken = used[{key.module, key.received}];
    life.slot = 0;
    while (taken.count(life.slot))
      ++life.slot;
    taken.insert(life.slot);
    PlannedModule &m = plan.modules[key.module];
    int64_t &most = key.received ? m.receivedSlots : m.slots;
    most = std::max(most, life.slot + 1);
  }

  StepPlan &plan;
  std::vector<Row> &rows;
  std::map<Key, Life> lives;
  std::map<std::pair<unsigned, bool>, std::set<int64_t>> used;
};

} // namespace

void dt::lower::assignRowSlots(StepPlan &plan, std::vector<Row> &rows) {
  SlotAssigner(plan, rows).run();
}
