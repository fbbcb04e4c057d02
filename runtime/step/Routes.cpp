//===- Routes.cpp - which rows of an edge go from rank to rank ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/Routes.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cstring>

namespace dt::rt {

/// Items from number `first` on, up to `end`.
static ItemRun runOf(const ItemRows &items, int64_t first, int64_t end) {
  ItemRun run{first, end - first, {first, end - first}};
  if (!items.measure)
    return run;
  run.rows = {0, 0};
  for (int64_t i = 0; i < end; ++i)
    (i < first ? run.rows.first : run.rows.count) += items.of(size_t(i));
  return run;
}

/// The first item that begins at row `row` or behind it.
static int64_t firstFrom(const ItemRows &items, int64_t row) {
  if (!items.measure)
    return row;
  int64_t i = 0, at = 0;
  for (; i < int64_t(items.count()) && at < row; ++i)
    at += items.of(size_t(i));
  return i;
}

ItemRun leavingFrom(const ItemRows &items, int64_t tp, int64_t place) {
  int64_t total = items.total();
  auto first = [&](int64_t p) {
    return firstFrom(items, (p * total + tp - 1) / tp);
  };
  return runOf(items, first(place), first(place + 1));
}

ItemRun arrivingAt(const ItemRows &items, int64_t tp, int64_t place) {
  int64_t total = items.total();
  auto first = [&](int64_t p) { return firstFrom(items, p * total / tp); };
  return runOf(items, first(place), first(place + 1));
}

static void append(std::vector<RowRun> &runs, int64_t first, int64_t count) {
  if (!runs.empty() && runs.back().first + runs.back().count == first)
    runs.back().count += count;
  else
    runs.push_back({first, count});
}

Route routeOf(const RouteEnd &producer, const RouteEnd &consumer) {
  const Items &a = *producer.items.items, &b = *consumer.items.items;
  ItemRun from = leavingFrom(producer.items, producer.tp, producer.place),
          to = arrivingAt(consumer.items, consumer.tp, consumer.place);
  Route route;
  int64_t i = from.first, j = to.first;
  int64_t iEnd = i + from.count, jEnd = j + to.count;
  int64_t iRow = from.rows.first, jRow = to.rows.first;
  while (i < iEnd && j < jEnd) {
    int64_t rows = producer.items.of(size_t(i));
    if (a[size_t(i)] < b[size_t(j)]) {
      iRow += rows, ++i;
    } else if (b[size_t(j)] < a[size_t(i)]) {
      jRow += consumer.items.of(size_t(j++));
    } else {
      if (rows) {
        append(route.producer, iRow, rows);
        append(route.consumer, jRow, rows);
      }
      iRow += rows, jRow += rows, ++i, ++j;
      route.rows += rows;
    }
  }
  return route;
}

int64_t sharersOf(const EdgeInfo &edge, const Placement &placement,
                  size_t module) {
  return edge.cut ? 1 : placement.tp(module);
}

int32_t rowAxis(const TensorInfo &tensor) {
  for (int32_t i = 0; i < tensor.rank; ++i)
    if (tensor.shape[i].symbol >= 0 || tensor.shape[i].offset != 1)
      return i;
  return -1;
}

/// Whether two symbols count, or add up, the same of equal items.
static bool sameItems(const SymbolInfo &a, const SymbolInfo &b) {
  auto same = [](const char *x, const char *y) {
    return !std::strcmp(x ? x : "", y ? y : "");
  };
  return same(a.item, b.item) && same(a.measure, b.measure);
}

/// Whether two ends have equal blocks in equal parts.
static bool sameShape(const TensorInfo &a, const ModuleInfo &from,
                      const TensorInfo &b, const ModuleInfo &to) {
  auto same = [&](const Extent &x, const Extent &y) {
    if (x.symbol < 0 || y.symbol < 0)
      return x.symbol == y.symbol && x.offset == y.offset;
    const SymbolInfo &rows = from.symbols[size_t(x.symbol)],
                     &others = to.symbols[size_t(y.symbol)];
    return sameItems(rows, others) && rows.multiple == others.multiple &&
           x.scale == y.scale && x.per == y.per && x.offset == y.offset;
  };
  return a.rank == b.rank &&
         std::equal(a.shape, a.shape + a.rank, b.shape, b.shape + b.rank, same);
}

EdgeShape edgeShape(const ProgramInfo &program, const EdgeInfo &edge) {
  const ModuleInfo &from = program.modules[size_t(edge.from)],
                   &to = program.modules[size_t(edge.to)];
  const TensorInfo &out = from.outputs[size_t(edge.fromOutput)].tensor,
                   &in = to.inputs[size_t(edge.toInput)].buffer.tensor;
  auto fail = [&](const char *what) {
    return Error(std::string("edge from '") + from.name + "." + out.name +
                 "' to '" + to.name + "." + in.name + "': the two ends " +
                 what);
  };
  if (edge.cut) {
    if (!sameShape(out, from, in, to) || from.tp != to.tp ||
        partsOf(from) != partsOf(to))
      throw fail("are cut differently");
    return {};
  }
  auto symbolOf = [](const TensorInfo &tensor, const ModuleInfo &module) {
    int32_t axis = rowAxis(tensor);
    int symbol = axis >= 0 ? tensor.shape[axis].symbol : -1;
    return symbol >= 0 && module.symbols[size_t(symbol)].item ? symbol : -1;
  };
  EdgeShape shape{symbolOf(out, from), symbolOf(in, to)};
  bool same = (shape.producerSymbol < 0) == (shape.consumerSymbol < 0);
  if (same && shape.producerSymbol >= 0) {
    same = sameItems(from.symbols[size_t(shape.producerSymbol)],
                     to.symbols[size_t(shape.consumerSymbol)]) &&
           out.shape[rowAxis(out)].scale == in.shape[rowAxis(in)].scale;
  }
  if (!same)
    throw fail("count different items");
  return shape;
}

ItemRows itemsOf(const Assignment &assignment, size_t module, int64_t task,
                 int32_t part, int symbol) {
  static const Items piece = {0};
  if (symbol < 0)
    return {&piece};
  return {&assignment.part(module, task, part).symbols[size_t(symbol)],
          assignment.measureOf(module, size_t(symbol))};
}

int64_t messageNumber(const ProgramInfo &program, const TaskRow &row,
                      bool sends) {
  const EdgeInfo &edge = program.edges[row.index];
  int32_t from = piecesOf(program.modules[size_t(edge.from)]),
          to = piecesOf(program.modules[size_t(edge.to)]);
  bool producer = sends != row.gradient;
  int32_t own = row.piece, other = row.peer % (producer ? to : from);
  return (int64_t(row.microbatch) * from + (producer ? own : other)) * to +
         (producer ? other : own);
}

bool packTogether(const ProgramInfo &program, const TaskRow &a,
                  const TaskRow &b) {
  if (a.kind != b.kind || a.index != b.index || a.gradient != b.gradient ||
      a.piece != b.piece)
    return false;
  const EdgeInfo &edge = program.edges[a.index];
  bool producer = (a.kind == TaskKind::Send) != a.gradient;
  const ModuleInfo &own =
      program.modules[size_t(producer ? edge.from : edge.to)];
  return taskOf(own, a.microbatch) == taskOf(own, b.microbatch);
}

std::vector<int> ranksAcross(const ProgramInfo &program,
                             const Placement &placement, const TaskRow &row,
                             bool sends) {
  const EdgeInfo &edge = program.edges[row.index];
  const ModuleInfo &consumer = program.modules[size_t(edge.to)];
  bool producer = sends != row.gradient;
  size_t own = size_t(producer ? edge.from : edge.to),
         other = size_t(producer ? edge.to : edge.from);
  int32_t replica = row.peer / piecesOf(program.modules[other]);
  std::vector<int> ranks;
  for (int32_t t = 0; t < placement.tp(other); ++t) {
    int rank = placement.rankOf(other, replica, t);
    // All ranks of a whole-batch module have the gradient; one gives it.
    bool gives = !row.gradient || !consumer.wholeBatch ||
                 gradientSource(consumer, producer ? placement.rank() : rank) ==
                     (producer ? replica : placement.at(own).replica);
    bool meets = !edge.cut || t == placement.at(own).tp;
    ranks.push_back(gives && meets ? rank : -1);
  }
  return ranks;
}

int32_t gradientSource(const ModuleInfo &wholeBatch, int producerRank) {
  for (size_t i = 0; i < wholeBatch.ranks.size; ++i)
    if (wholeBatch.ranks[i] == producerRank)
      return int32_t(i);
  return int32_t(size_t(producerRank) % wholeBatch.ranks.size);
}

} // namespace dt::rt
