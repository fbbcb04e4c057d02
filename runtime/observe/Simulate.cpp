//===- Simulate.cpp - a step from the times of its tasks --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/observe/Simulate.h"
#include "runtime/base/Error.h"
#include "runtime/data/Assignment.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace dt::rt {

namespace {

struct RowRef {
  int rank;
  size_t row;
};
/// Edge, microbatch, gradient, part that sends, part that receives.
using MessageKey = std::tuple<int, uint32_t, bool, int, int>;

/// Replica of a module on a rank, or -1. Every rank of a whole-batch module is
/// one.
int replicaOf(const ModuleInfo &module, int rank) {
  for (size_t i = 0; i < module.ranks.size; ++i)
    if (module.ranks[i] == rank)
      return module.wholeBatch ? int(i) : int(i) / module.tp;
  return -1;
}

class Simulation {
public:
  Simulation(const ProgramInfo &program, const std::vector<RowTimes> &times,
             const std::function<bool(const TaskRow &, int)> &exists, int cores)
      : program(program), times(times), ranks(int(program.ranks.size)),
        cores(cores > 0 ? cores : ranks), next(ranks, 0), left(ranks, -1) {
    step.busy.assign(ranks, 0);
    step.waiting.assign(ranks, 0);
    step.collectives.assign(ranks, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      const Span<TaskRow> &rows = program.ranks[rank].rows;
      step.spans.emplace_back(rows.size);
      done.emplace_back(rows.size, false);
      for (size_t row = 0; row < rows.size; ++row)
        if (rows[row].kind == TaskKind::Send && exists(rows[row], rank))
          sends[keyOf(rows[row], rank)].push_back({rank, row});
        else if (rows[row].kind == TaskKind::Receive)
          receives[{rank, rows[row].index, rows[row].microbatch,
                    rows[row].piece, rows[row].gradient}]
              .push_back(row);
    }
  }

  SimulatedStep run() {
    while (true) {
      while (beginAll())
        ;
      std::vector<int> active;
      for (int rank = 0; rank < ranks; ++rank)
        if (left[rank] >= 0)
          active.push_back(rank);
      if (active.empty())
        break;
      advance(active);
    }
    finish();
    return std::move(step);
  }

private:
  MessageKey keyOf(const TaskRow &row, int rank) const {
    const EdgeInfo &edge = program.edges[row.index];
    bool sends = row.kind == TaskKind::Send;
    // The end that this rank is on: a gradient goes from `to` to `from`.
    int module = sends != row.gradient ? edge.from : edge.to;
    const ModuleInfo &own = program.modules[module];
    int self = replicaOf(own, rank) * piecesOf(own) + row.piece;
    return {int(row.index), row.microbatch, row.gradient,
            sends ? self : row.peer, sends ? row.peer : self};
  }

  /// All messages of the piece on this edge have been sent to this rank.
  bool received(int rank, int edge, uint32_t microbatch, int16_t piece,
                bool gradient) const {
    auto posted = receives.find({rank, edge, microbatch, piece, gradient});
    if (posted == receives.end())
      return true;
    for (size_t row : posted->second) {
      auto sent = sends.find(keyOf(program.ranks[rank].rows[row], rank));
      if (sent == sends.end())
        continue; // nothing to send
      for (const RowRef &ref : sent->second)
        if (!done[ref.rank][ref.row])
          return false;
    }
    return true;
  }

  bool ready(int rank, size_t index) const {
    const TaskRow &row = program.ranks[rank].rows[index];
    if (!computes(row.kind))
      return true;
    bool forward = row.kind == TaskKind::Forward;
    const ModuleInfo &module = program.modules[row.index];
    for (size_t e = 0; e < program.edges.size; ++e) {
      const EdgeInfo &edge = program.edges[e];
      if (forward ? edge.to != row.index : edge.from != row.index)
        continue;
      if (!forward && !edge.gradient)
        continue;
      int64_t last = lastOfTask(program, module, row.microbatch);
      for (int64_t k = row.microbatch; k <= last; ++k)
        if (!received(rank, int(e), uint32_t(k), row.piece, !forward))
          return false;
    }
    return true;
  }

  /// The ranks that do a row together.
  std::vector<int> groupOf(int rank, const TaskRow &row) const {
    if (!computes(row.kind))
      return {rank};
    const ModuleInfo &module = program.modules[row.index];
    if (module.wholeBatch || module.tp == 1)
      return {rank};
    int first = replicaOf(module, rank) * module.tp;
    return std::vector<int>(module.ranks.begin() + first,
                            module.ranks.begin() + first + module.tp);
  }

  bool isNext(int rank, const TaskRow &row) const {
    if (left[rank] >= 0 || next[rank] >= program.ranks[rank].rows.size)
      return false;
    const TaskRow &own = program.ranks[rank].rows[next[rank]];
    return own.kind == row.kind && own.index == row.index &&
           own.microbatch == row.microbatch && own.piece == row.piece &&
           ready(rank, next[rank]);
  }

  /// Begins what can begin; true if anything of no length ended at once.
  bool beginAll() {
    bool again = false;
    for (int rank = 0; rank < ranks; ++rank) {
      if (left[rank] >= 0 || next[rank] >= program.ranks[rank].rows.size)
        continue;
      const TaskRow &row = program.ranks[rank].rows[next[rank]];
      std::vector<int> group = groupOf(rank, row);
      if (!std::all_of(group.begin(), group.end(),
                       [&](int r) { return isNext(r, row); }))
        continue;
      // Ranks of a group end together: collectives are in between.
      double longest = 0, together = collectivesOf(group);
      for (int r : group)
        longest = std::max(longest, times[r].seconds[next[r]]);
      longest += together;
      for (int r : group) {
        step.spans[r][next[r]].first = now;
        left[r] = longest;
        step.busy[r] += together;
        step.collectives[r] += together;
        again |= longest == 0;
      }
      if (longest == 0)
        for (int r : group)
          end(r);
    }
    return again;
  }

  double collectivesOf(const std::vector<int> &group) const {
    double least = group.size() > 1 ? 1e30 : 0;
    for (int r : group)
      least = std::min(least, times[r].collectives.empty()
                                  ? 0
                                  : times[r].collectives[next[r]]);
    return least;
  }

  void end(int rank) {
    step.spans[rank][next[rank]].second = now;
    step.busy[rank] += times[rank].seconds[next[rank]];
    done[rank][next[rank]] = true;
    left[rank] = -1;
    ++next[rank];
  }

  /// To the next end of a row; ranks at work share the cores evenly.
  void advance(const std::vector<int> &active) {
    double rate = std::min(1.0, double(cores) / double(active.size()));
    double work = left[active[0]];
    for (int rank : active)
      work = std::min(work, left[rank]);
    now += work / rate;
    for (int rank = 0; rank < ranks; ++rank)
      if (left[rank] < 0 && next[rank] < program.ranks[rank].rows.size)
        step.waiting[rank] += work / rate;
    for (int rank : active) {
      left[rank] -= work;
      if (left[rank] <= 1e-12)
        end(rank);
    }
  }

  /// Gradients are summed and the norm is exchanged: a barrier, then updates.
  void finish() {
    double longest = 0, sum = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      if (next[rank] < program.ranks[rank].rows.size)
        throw Error("the rows of the step wait for one another at rank " +
                    std::to_string(rank) + ", row " +
                    std::to_string(next[rank]));
      double last =
          step.spans[rank].empty() ? 0 : step.spans[rank].back().second;
      step.waiting[rank] += now - last;
      step.busy[rank] += times[rank].tail;
      longest = std::max(longest, times[rank].tail);
      sum += times[rank].tail;
    }
    step.seconds = now + std::max(longest, sum / cores);
  }

  const ProgramInfo &program;
  const std::vector<RowTimes> &times;
  int ranks, cores;
  double now = 0;
  SimulatedStep step;
  std::vector<size_t> next; ///< row that each rank does or waits for
  std::vector<double> left; ///< work of it that is left; -1: not begun
  std::vector<std::vector<bool>> done;
  std::map<MessageKey, std::vector<RowRef>> sends;
  /// By rank, edge, microbatch, piece, gradient.
  std::map<std::tuple<int, int, uint32_t, int16_t, bool>, std::vector<size_t>>
      receives;
};

} // namespace

double SimulatedStep::bubble() const {
  double total = 0;
  for (double w : waiting)
    total += w;
  return seconds > 0 && !waiting.empty()
             ? total / (seconds * double(waiting.size()))
             : 0;
}

SimulatedStep
simulateRows(const ProgramInfo &program, const std::vector<RowTimes> &times,
             const std::function<bool(const TaskRow &, int)> &exists,
             int cores) {
  return Simulation(program, times, exists, cores).run();
}

} // namespace dt::rt
