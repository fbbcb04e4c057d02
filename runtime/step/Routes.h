//===- Routes.h - which rows of an edge go from rank to rank ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Pure functions of two parts' items and the sizes of two tensor-parallel
// groups (docs/parallel.md#messages): both ends of a message evaluate the
// same one and nobody sends a size.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_ROUTES_H
#define DT_RUNTIME_STEP_ROUTES_H

#include "runtime/data/Assignment.h"
#include "runtime/state/Placement.h"

#include <vector>

namespace dt::rt {

/// Rows of a block that follow one another: one an item, or as many as the
/// item's measure says.
struct RowRun {
  int64_t first, count;
  bool operator==(const RowRun &o) const {
    return first == o.first && count == o.count;
  }
};
/// Items of a list that follow one another, and their rows.
struct ItemRun {
  int64_t first, count;
  RowRun rows;
};

/// Of a producer's items those that leave from place `place` of `tp`. Of T rows
/// an item whose first is row r leaves from floor(r * tp / T).
ItemRun leavingFrom(const ItemRows &items, int64_t tp, int64_t place);
/// Of a consumer's items those that arrive at place `place` of `tp`: whose
/// first row is in [place * T / tp, (place + 1) * T / tp).
ItemRun arrivingAt(const ItemRows &items, int64_t tp, int64_t place);

/// What goes forward from one rank to another: rows in the producer's block and
/// in the consumer's, ascending; equally many, maybe none. The gradient goes
/// the same way back.
struct Route {
  std::vector<RowRun> producer, consumer;
  int64_t rows = 0;
};

/// One end: the items of a part, its replica's ranks, and which of them.
struct RouteEnd {
  ItemRows items;
  int64_t tp, place;
};
Route routeOf(const RouteEnd &producer, const RouteEnd &consumer);

/// The axis of an edge's tensor that has its rows: the first whose extent is
/// not the number 1; -1 if there is none.
int32_t rowAxis(const TensorInfo &tensor);

/// Among how many ranks of an end's replica an edge's rows are shared out: 1 if
/// each has a block of its own.
int64_t sharersOf(const EdgeInfo &edge, const Placement &placement,
                  size_t module);

/// What an edge carries: its item symbols on both ends (-1: one piece, as what
/// a rank has of a cut edge), the item's size without what the dims of a part
/// decide.
struct EdgeShape {
  int producerSymbol = -1, consumerSymbol = -1;
};
/// Throws Error naming the edge if the two ends count different items, or cut
/// them otherwise.
EdgeShape edgeShape(const ProgramInfo &program, const EdgeInfo &edge);

/// Items of an end of an edge, and their rows; one for an edge that is one
/// piece.
ItemRows itemsOf(const Assignment &assignment, size_t module, int64_t task,
                 int32_t part, int symbol);

/// A number for a row's message, the same on both ends: by microbatch, then by
/// the pieces of both.
int64_t messageNumber(const ProgramInfo &program, const TaskRow &row,
                      bool sends);

/// Whether two rows bring or take items of one task and piece of their module
/// over an edge. Each item goes with one of such rows: one block has room for
/// all that they pack.
bool packTogether(const ProgramInfo &program, const TaskRow &a,
                  const TaskRow &b);

/// The ranks at the other end of a row that sends or receives, by their place
/// in that replica; -1: it has no message with that one. Of a cut edge there is
/// the one at the row's own place. `placement`: of the row's rank.
std::vector<int> ranksAcross(const ProgramInfo &program,
                             const Placement &placement, const TaskRow &row,
                             bool sends);

/// Of a whole-batch module all ranks have all gradients: the one that gives the
/// producer's rank its part is this replica of the module.
int32_t gradientSource(const ModuleInfo &wholeBatch, int producerRank);

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_ROUTES_H
