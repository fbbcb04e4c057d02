//===- MessageOrder.cpp - one order of all messages of a step -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/MessageOrder.h"
#include "runtime/base/Error.h"
#include "runtime/step/Routes.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace dt::rt {

namespace {

/// One message between two ranks, by its receiver.
struct Message {
  int from;
  size_t row;
  bool posted = false, sent = false;
};

/// A rank on its way through its rows.
struct Walker {
  Placement placement;
  const Span<TaskRow> *rows;
  std::vector<std::vector<size_t>> messages; ///< of each row, as it has them
  size_t at = 0;
  bool moved = false; ///< has done its task of this round

  bool ended() const { return at == rows->size; }
  const TaskRow &row() const { return (*rows)[at]; }
};

class Walk {
public:
  Walk(const ProgramInfo &program, int rank) : program(program), self(rank) {
    for (int r = 0; r < int(program.ranks.size); ++r)
      walkers.push_back({Placement(program, r, int(program.ranks.size)),
                         &program.ranks[size_t(r)].rows,
                         {},
                         {}});
    for (int r = 0; r < int(walkers.size()); ++r)
      pair(r, false);
    for (int r = 0; r < int(walkers.size()); ++r)
      pair(r, true);
    for (auto &[key, message] : unsent)
      fail(std::get<1>(key), messages[message].row, "has no row that sends it");
  }

  std::vector<CallPlace> run() {
    // In a round every rank moves data as far as it can, then does one task.
    for (bool moves = true; moves;) {
      moves = advance(false);
      while (advance(false))
        ;
      for (Walker &walker : walkers)
        walker.moved = false;
      moves |= advance(true);
    }
    for (size_t r = 0; r < walkers.size(); ++r)
      if (!walkers[r].ended())
        fail(int(r), walkers[r].at, "waits for ranks that wait for it");
    return std::move(order);
  }

private:
  /// From, to, edge, gradient, number.
  using Key = std::tuple<int, int, int, bool, int64_t>;

  /// Numbers the messages of a rank's rows: at their receivers first, then the
  /// same ones at their senders.
  void pair(int rank, bool sends) {
    Walker &walker = walkers[size_t(rank)];
    walker.messages.resize(walker.rows->size);
    for (size_t i = 0; i < walker.rows->size; ++i) {
      const TaskRow &row = (*walker.rows)[i];
      if (row.kind != (sends ? TaskKind::Send : TaskKind::Receive))
        continue;
      int64_t number = messageNumber(program, row, sends);
      for (int other : ranksAcross(program, walker.placement, row, sends)) {
        if (other < 0 || other == rank)
          continue;
        Key key(sends ? rank : other, sends ? other : rank, row.index,
                row.gradient, number);
        auto it = unsent.find(key);
        if (sends == (it == unsent.end()))
          fail(rank, i, sends ? "has no row that receives it" : "comes twice");
        if (sends) {
          walker.messages[i].push_back(it->second);
          unsent.erase(it);
        } else {
          unsent[key] = messages.size();
          walker.messages[i].push_back(messages.size());
          messages.push_back({other, i});
        }
      }
    }
  }

  /// Every rank: one task, or all rows that move data up to the next one.
  bool advance(bool tasks) {
    bool moves = false;
    for (Walker &walker : walkers)
      while (!walker.ended() && isTask(walker.row()) == tasks &&
             (tasks ? runTogether(walker) : move(walker)))
        moves = true;
    return moves;
  }

  static bool isTask(const TaskRow &row) {
    return runsFunction(row.kind) || row.kind == TaskKind::Reduce;
  }

  bool move(Walker &walker) {
    if (!hasAll(walker))
      return false;
    if (walker.row().kind == TaskKind::Send)
      return send(walker);
    if (walker.row().kind == TaskKind::Receive)
      for (size_t m : walker.messages[walker.at])
        messages[m].posted = true;
    ++walker.at;
    return true;
  }

  bool send(Walker &walker) {
    const std::vector<size_t> &own = walker.messages[walker.at];
    if (!std::all_of(own.begin(), own.end(),
                     [&](size_t m) { return messages[m].posted; }))
      return false;
    std::vector<int> ranks =
        ranksAcross(program, walker.placement, walker.row(), true);
    ranks.erase(std::remove_if(ranks.begin(), ranks.end(),
                               [&](int r) {
                                 return r < 0 || r == walker.placement.rank();
                               }),
                ranks.end());
    for (size_t i = 0; i < own.size(); ++i) {
      messages[own[i]].sent = true;
      if (ranks[i] == self)
        order.push_back({walkers[size_t(self)].at, messages[own[i]].row,
                         messages[own[i]].from});
    }
    ++walker.at;
    return true;
  }

  size_t moduleOf(const TaskRow &row) const {
    return row.kind == TaskKind::Denominator
               ? size_t(program.losses[row.index].module)
               : row.index;
  }

  /// The ranks of a replica begin a row together, as they have collectives in
  /// it.
  bool runTogether(Walker &walker) {
    const TaskRow &row = walker.row();
    size_t module = moduleOf(row);
    std::vector<int> members = walker.placement.replicaRanks(
        module, walker.placement.at(module).replica);
    auto ready = [&](int member) {
      const Walker &other = walkers[size_t(member)];
      if (other.ended() || other.moved)
        return false;
      const TaskRow &its = other.row();
      return its.kind == row.kind && its.index == row.index &&
             its.microbatch == row.microbatch && its.piece == row.piece &&
             hasAll(other);
    };
    if (!std::all_of(members.begin(), members.end(), ready))
      return false;
    for (int member : members) {
      Walker &other = walkers[size_t(member)];
      other.moved = true;
      ++other.at;
    }
    return true;
  }

  /// Whether what a rank's next row waits for has been sent.
  bool hasAll(const Walker &walker) const {
    const Span<int32_t> &waits = walker.row().waits;
    return std::all_of(waits.begin(), waits.end(), [&](int32_t i) {
      const std::vector<size_t> &own = walker.messages[size_t(i)];
      return std::all_of(own.begin(), own.end(),
                         [&](size_t m) { return messages[m].sent; });
    });
  }

  [[noreturn]] void fail(int rank, size_t row, const std::string &what) const {
    const TaskRow &r = walkers[size_t(rank)].rows->begin()[row];
    throw Error("ranks cannot exchange messages in one order: rank " +
                std::to_string(rank) + ", row " + std::to_string(row) + " (" +
                textOf(r.kind) + ", microbatch " +
                std::to_string(r.microbatch) + ") " + what);
  }

  const ProgramInfo &program;
  int self;
  std::vector<Walker> walkers;
  std::vector<Message> messages;
  std::map<Key, size_t> unsent; ///< while rows are paired
  std::vector<CallPlace> order;
};

} // namespace

std::vector<CallPlace> orderMessages(const ProgramInfo &program, int rank) {
  return Walk(program, rank).run();
}

} // namespace dt::rt
