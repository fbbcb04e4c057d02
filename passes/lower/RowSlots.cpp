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

/// Where a row of a task names its slots, by kind.
constexpr int64_t Row::*kSlots[] = {&Row::slot, &Row::received, &Row::early,
                                    &Row::late};

/// A slot from the first to the last row that uses it: the lowest free one, so
/// there are as many as are in use at once.
class SlotAssigner {
public:
  SlotAssigner(StepPlan &plan, std::vector<Row> &rows)
      : plan(plan), rows(rows) {}

  void run() {
    for (auto [m, module] : llvm::enumerate(plan.modules))
      for (TaskKind kind : {TaskKind::Forward, TaskKind::Backward,
                            TaskKind::BackwardInput, TaskKind::BackwardWeight})
        for (unsigned d : module.getBuffers(kind))
          if (auto slots = module.declarations[d].slots)
            kinds[{m, kind}].insert(*slots);
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
          used[{key.module, key.kind}].erase(lives[key].slot);
      });
    }
  }

private:
  struct Key {
    unsigned module;
    rt::SlotKind kind;
    int64_t microbatch, piece;
    bool operator<(const Key &other) const {
      return std::tie(module, kind, microbatch, piece) <
             std::tie(other.module, other.kind, other.microbatch, other.piece);
    }
  };
  struct Life {
    size_t first, last;
    int64_t slot;
  };

  /// Calls f with every slot that the row uses, and where the row names it.
  void forEachUse(Row &row, function_ref<void(Key, int64_t *)> f) {
    auto part = [&](unsigned module, rt::SlotKind kind) {
      const PlannedModule &m = plan.modules[module];
      return m.wholeBatch
                 ? Key{module, kind, 0, 0}
                 : Key{module, kind, m.getFirst(row.microbatch), row.piece};
    };
    switch (row.kind) {
    case TaskKind::Denominator:
    case TaskKind::Reduce:
      return;
    case TaskKind::Forward:
    case TaskKind::Backward:
    case TaskKind::BackwardInput:
    case TaskKind::BackwardWeight:
      for (rt::SlotKind kind : kinds[{row.index, row.kind}])
        f(part(row.index, kind), &(row.*kSlots[size_t(kind)]));
      return;
    case TaskKind::Receive:
    case TaskKind::Send:
    case TaskKind::Copy:
      break;
    }
    const PlannedEdge &edge = plan.edges[row.index];
    const PlannedModule &from = plan.modules[edge.from],
                        &to = plan.modules[edge.to];
    unsigned source = row.gradient ? *edge.produced
                                   : from.outputs[edge.fromOutput].second,
             target = row.gradient ? *edge.consumed
                                   : to.inputs[edge.toInput].declaration;
    auto end = [&](unsigned module, unsigned declaration) {
      return part(module,
                  *plan.modules[module].declarations[declaration].slots);
    };
    Key sent = end(row.gradient ? edge.to : edge.from, source),
        received = end(row.gradient ? edge.from : edge.to, target);
    if (row.kind != TaskKind::Receive)
      f(sent, &row.slot);
    if (row.kind != TaskKind::Send)
      f(received, row.kind == TaskKind::Copy ? &row.peer : &row.slot);
  }

  void allocate(Key key, Life &life) {
    std::set<int64_t> &taken = used[{key.module, key.kind}];
    life.slot = 0;
    while (taken.count(life.slot))
      ++life.slot;
    taken.insert(life.slot);
    int64_t &most = plan.modules[key.module].slots[size_t(key.kind)];
    most = std::max(most, life.slot + 1);
  }

  StepPlan &plan;
  std::vector<Row> &rows;
  std::map<Key, Life> lives;
  std::map<std::pair<unsigned, rt::SlotKind>, std::set<int64_t>> used;
  /// By module and kind of its rows.
  std::map<std::pair<unsigned, TaskKind>, std::set<rt::SlotKind>> kinds;
};

} // namespace

void dt::lower::assignRowSlots(StepPlan &plan, std::vector<Row> &rows) {
  SlotAssigner(plan, rows).run();
}
