//===- Routes.cpp - which rows of an edge go from rank to rank ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/Routes.h"
#include "runtime/base/Error.h"

#include <cstring>

namespace dt::rt {

ItemRun leavingFrom(int64_t count, int64_t tp, int64_t place) {
  auto first = [&](int64_t p) { return (p * count + tp - 1) / tp; };
  return {first(place), first(place + 1) - first(place)};
}

ItemRun arrivingAt(int64_t count, int64_t tp, int64_t place) {
  int64_t first = place * count / tp;
  return {first, (place + 1) * count / tp - first};
}

static void append(std::vector<ItemRun> &runs, int64_t row) {
  if (!runs.empty() && runs.back().first + runs.back().count == row)
    ++runs.back().count;
  else
    runs.push_back({row, 1});
}

Route routeOf(const RouteEnd &producer, const RouteEnd &consumer) {
  const Items &a = *producer.items, &b = *consumer.items;
  ItemRun from = leavingFrom(int64_t(a.size()), producer.tp, producer.place),
          to = arrivingAt(int64_t(b.size()), consumer.tp, consumer.place);
  Route route;
  int64_t i = from.first, j = to.first;
  int64_t iEnd = i + from.count, jEnd = j + to.count;
  while (i < iEnd && j < jEnd) {
    if (a[size_t(i)] < b[size_t(j)]) {
      ++i;
    } else if (b[size_t(j)] < a[size_t(i)]) {
      ++j;
    } else {
      append(route.producer, i++);
      append(route.consumer, j++);
      ++route.items;
    }
  }
  return route;
}

EdgeShape edgeShape(const ProgramInfo &program, const EdgeInfo &edge) {
  const ModuleInfo &from = program.modules[size_t(edge.from)],
                   &to = program.modules[size_t(edge.to)];
  const TensorInfo &out = from.outputs[size_t(edge.fromOutput)].tensor,
                   &in = to.inputs[size_t(edge.toInput)].buffer.tensor;
  auto symbolOf = [](const TensorInfo &tensor, const ModuleInfo &module) {
    int symbol = tensor.rank > 0 ? tensor.shape[0].symbol : -1;
    return symbol >= 0 && module.symbols[size_t(symbol)].item ? symbol : -1;
  };
  EdgeShape shape{symbolOf(out, from), symbolOf(in, to)};
  bool same = (shape.producerSymbol < 0) == (shape.consumerSymbol < 0);
  if (same && shape.producerSymbol >= 0)
    same = !std::strcmp(from.symbols[size_t(shape.producerSymbol)].item,
                        to.symbols[size_t(shape.consumerSymbol)].item) &&
           out.shape[0].scale == in.shape[0].scale;
  if (!same)
    throw Error(std::string("edge from '") + from.name + "." + out.name +
                "' to '" + to.name + "." + in.name +
                "': the two ends count different items");
  return shape;
}

const Items &itemsOf(const Assignment &assignment, size_t module, int64_t task,
                     int32_t part, int symbol) {
  static const Items piece = {0};
  return symbol < 0
             ? piece
             : assignment.part(module, task, part).symbols[size_t(symbol)];
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
    ranks.push_back(gives ? rank : -1);
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
