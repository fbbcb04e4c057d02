//===- Transfers.cpp - messages between modules ---------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/Transfers.h"
#include "runtime/base/Error.h"
#include "runtime/data/Padding.h"
#include "runtime/device/Device.h"

#include <algorithm>

namespace dt::rt {

namespace {

size_t bytesOf(const TensorInfo &tensor, const int64_t *dims,
               int32_t firstDim) {
  size_t bytes = sizeOf(tensor.type);
  for (int32_t i = firstDim; i < tensor.rank; ++i)
    bytes *= size_t(extentOf(tensor.shape[i], dims));
  return bytes;
}

/// A block's runs of rows, one after another.
void pack(std::byte *to, const std::byte *block,
          const std::vector<RowRun> &runs, size_t unit) {
  for (const RowRun &run : runs) {
    device::copy(to, block + size_t(run.first) * unit,
                 size_t(run.count) * unit);
    to += size_t(run.count) * unit;
  }
}
void unpack(std::byte *block, const std::byte *from,
            const std::vector<RowRun> &runs, size_t unit) {
  for (const RowRun &run : runs) {
    device::copy(block + size_t(run.first) * unit, from,
                 size_t(run.count) * unit);
    from += size_t(run.count) * unit;
  }
}

/// The same rows in two blocks.
void copyRuns(const std::byte *from, const std::vector<RowRun> &fromRuns,
              std::byte *to, const std::vector<RowRun> &toRuns, size_t unit) {
  size_t i = 0, j = 0;
  int64_t doneI = 0, doneJ = 0; // rows of the current runs
  while (i < fromRuns.size() && j < toRuns.size()) {
    int64_t count =
        std::min(fromRuns[i].count - doneI, toRuns[j].count - doneJ);
    device::copy(to + size_t(toRuns[j].first + doneJ) * unit,
                 from + size_t(fromRuns[i].first + doneI) * unit,
                 size_t(count) * unit);
    doneI += count, doneJ += count;
    if (doneI == fromRuns[i].count)
      ++i, doneI = 0;
    if (doneJ == toRuns[j].count)
      ++j, doneJ = 0;
  }
}

} // namespace

std::string Transfers::label(const ProgramInfo &program, size_t edge,
                             bool gradient) {
  const EdgeInfo &e = program.edges[edge];
  const ModuleInfo &from = program.modules[size_t(e.from)],
                   &to = program.modules[size_t(e.to)];
  return std::string(gradient ? "gradient " : "forward ") + from.name + "." +
         from.outputs[size_t(e.fromOutput)].tensor.name + " -> " + to.name +
         "." + to.inputs[size_t(e.toInput)].buffer.tensor.name;
}

Transfers::Transfers(const ProgramInfo &program, const Placement &placement,
                     const Regions &regions, Fabric &fabric,
                     const std::vector<FabricGroup *> &groups,
                     const MessageBlocks &planned)
    : program(program), placement(placement), regions(regions), fabric(fabric),
      groups(groups), planned(planned),
      rows(program.ranks[size_t(placement.rank())].rows) {
  if (fabric.isOrdered())
    places = orderMessages(program, placement.rank());
  for (size_t e = 0; e < program.edges.size; ++e) {
    shapes.push_back(edgeShape(program, program.edges[e]));
    for (bool gradient : {false, true})
      labels.push_back(label(program, e, gradient)),
          gathers.push_back("gather " + labels.back());
  }
}

void Transfers::beginStep(const Batch &of) {
  batch = &of;
  called = 0;
}

//===----------------------------------------------------------------------===//
// Who and what
//===----------------------------------------------------------------------===//

Transfers::End Transfers::endOf(size_t index, bool gradient,
                                bool sending) const {
  const EdgeInfo &edge = program.edges[index];
  bool producer = sending != gradient;
  size_t module = size_t(producer ? edge.from : edge.to);
  const ModuleInfo &info = program.modules[module];
  const BufferInfo *buffer =
      gradient   ? (producer ? &edge.consumed : &edge.produced)
      : producer ? &info.outputs[size_t(edge.fromOutput)]
                 : &info.inputs[size_t(edge.toInput)].buffer;
  return {&edge, shapes[index], module, buffer, producer};
}

int32_t Transfers::partOf(size_t module, const TaskRow &row) const {
  const ModuleInfo &info = program.modules[module];
  int32_t replica = placement.at(module).replica;
  return info.wholeBatch ? replica : replica * piecesOf(info) + row.piece;
}

bool Transfers::meet(const TaskRow &sends, const TaskRow &receives) const {
  return sends.index == receives.index && sends.gradient == receives.gradient &&
         messageNumber(program, sends, true) ==
             messageNumber(program, receives, false);
}

ItemRows Transfers::items(const EdgeInfo &edge, const EdgeShape &shape,
                          bool producer, int64_t microbatch,
                          int32_t part) const {
  size_t module = size_t(producer ? edge.from : edge.to);
  return itemsOf(batch->assignment, module,
                 taskOf(program.modules[module], microbatch), part,
                 producer ? shape.producerSymbol : shape.consumerSymbol);
}

size_t Transfers::rowBytes(const End &end, const TaskRow &row) const {
  const TensorInfo &tensor = end.buffer->tensor;
  const int64_t *dims =
      batch->part(program, end.module, row.microbatch, row.piece).dims.data();
  bool cut =
      (end.producer ? end.shape.producerSymbol : end.shape.consumerSymbol) >= 0;
  int32_t axis = rowAxis(tensor);
  return cut ? bytesOf(tensor, dims, axis + 1) *
                   size_t(tensor.shape[axis].scale)
             : bytesOf(tensor, dims, 0);
}

template <typename Body>
void Transfers::forRoutes(const End &own, const TaskRow &row, Body body) const {
  const EdgeInfo &edge = *own.edge;
  const Placement::Place &place = placement.at(own.module);
  size_t other = size_t(own.producer ? edge.to : edge.from);
  RouteEnd mine{items(edge, own.shape, own.producer, row.microbatch,
                      partOf(own.module, row)),
                sharersOf(edge, placement, own.module),
                edge.cut ? 0 : place.tp};
  RouteEnd theirs{
      items(edge, own.shape, !own.producer, row.microbatch, row.peer),
      sharersOf(edge, placement, other), 0};
  if (!rowBytes(own, row)) // a block of a part without rows
    return;
  std::vector<int> ranks =
      ranksAcross(program, placement, row, own.producer != row.gradient);
  for (size_t t = 0; t < ranks.size(); ++t) {
    int rank = ranks[t];
    if (rank < 0)
      continue;
    theirs.place = edge.cut ? 0 : int64_t(t);
    Route route = own.producer ? routeOf(mine, theirs) : routeOf(theirs, mine);
    if (route.rows)
      body(rank, own.producer ? route.producer : route.consumer, route.rows);
  }
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// A new one is the largest that there may be, so that one fits that was
/// planned and later rows of the task find room.
std::shared_ptr<Transfers::Packed> Transfers::packedFor(const TaskRow &row,
                                                        size_t bytes) {
  if (!bytes)
    return nullptr;
  auto hasRoom = [&](const std::shared_ptr<Packed> &packed) {
    return packed && packTogether(program, packed->row, row) &&
           packed->size - packed->used >= bytes;
  };
  // Rows of a task follow one another.
  bool sends = row.kind == TaskKind::Send;
  for (auto it = arrivals.rbegin(); !sends && it != arrivals.rend(); ++it)
    if (hasRoom(it->packed))
      return it->packed;
  for (auto it = departures.rbegin(); sends && it != departures.rend(); ++it)
    if (hasRoom(it->packed))
      return it->packed;
  size_t size = std::max(
      bytes,
      planned.task[4 * size_t(row.index) + 2 * size_t(row.gradient) + sends]);
  return std::make_shared<Packed>(
      Packed{row, fabric.pool().take(size), size, 0});
}

void Transfers::receive(const TaskRow &row) {
  End end = endOf(row.index, row.gradient, false);
  arrivals.push_back({row, &row, end, {}, nullptr});
  Arrival &arrival = arrivals.back();
  std::byte *block = regions.address(end.module, *end.buffer, row.slot);
  size_t unit = rowBytes(end, row), packed = 0;
  forRoutes(end, row,
            [&](int rank, const std::vector<RowRun> &runs, int64_t count) {
              Incoming &part = arrival.parts.emplace_back();
              part.from = rank;
              part.runs = runs;
              part.bytes = size_t(count) * unit;
              part.self = rank == placement.rank();
              packed += part.isPacked() ? part.bytes : 0;
            });
  arrival.packed = packedFor(row, packed);
  for (Incoming &part : arrival.parts) {
    if (part.self) {
      receiveFromSelf(arrival, part);
      continue;
    }
    part.to = part.isPacked() ? arrival.packed->add(part.bytes)
                              : block + size_t(part.runs[0].first) * unit;
    if (!fabric.isOrdered())
      call(arrival, part);
  }
}

void Transfers::call(const Arrival &arrival, Incoming &part) {
  const TaskRow &row = arrival.row;
  part.request = fabric.irecv(part.to, part.bytes, part.from,
                              fabric.tag(row.index, int(program.edges.size),
                                         messageNumber(program, row, false),
                                         row.gradient));
}

/// Calls for what comes before a row in the order of all messages.
void Transfers::callUpTo(const TaskRow &row) {
  size_t number = size_t(&row - rows.begin());
  for (; called < places.size() && places[called].before <= number; ++called)
    for (Arrival &arrival : arrivals)
      for (Incoming &part : arrival.parts)
        if (arrival.posted == &rows[places[called].row] &&
            part.from == places[called].from)
          call(arrival, part);
}

uint64_t Transfers::send(const TaskRow &row) {
  uint64_t sent = 0;
  End end = endOf(row.index, row.gradient, true);
  const std::byte *block = regions.address(end.module, *end.buffer, row.slot);
  size_t unit = rowBytes(end, row);
  int tag = fabric.tag(row.index, int(program.edges.size),
                       messageNumber(program, row, true), row.gradient);
  const std::string &name = labels[2 * size_t(row.index) + row.gradient];
  struct Leaving {
    int rank;
    std::vector<RowRun> runs;
    size_t bytes;
  };
  std::vector<Leaving> leaving;
  size_t packed = 0;
  forRoutes(end, row,
            [&](int rank, const std::vector<RowRun> &runs, int64_t count) {
              if (rank == placement.rank())
                return sendToSelf(row, end, runs, unit);
              leaving.push_back({rank, runs, size_t(count) * unit});
              packed += runs.size() > 1 ? leaving.back().bytes : 0;
            });
  std::shared_ptr<Packed> memory = packedFor(row, packed);
  for (const auto &[rank, runs, bytes] : leaving) {
    const std::byte *from = block + size_t(runs[0].first) * unit;
    if (runs.size() > 1) {
      std::byte *to = memory->add(bytes);
      pack(to, block, runs, unit);
      from = to;
    }
    departures.push_back(
        {&row, memory, fabric.isend(from, bytes, rank, tag, name.c_str())});
    sent += bytes;
  }
  return sent;
}

void Transfers::receiveFromSelf(Arrival &arrival, Incoming &part) {
  for (auto it = stashes.begin(); it != stashes.end(); ++it) {
    if (!meet(it->row, arrival.row))
      continue;
    unpack(addressOf(arrival), it->packed.get(), part.runs,
           rowBytes(arrival.end, arrival.row));
    part.here = true;
    stashes.erase(it);
    return;
  }
}

void Transfers::sendToSelf(const TaskRow &row, const End &end,
                           const std::vector<RowRun> &runs, size_t unit) {
  const std::byte *block = regions.address(end.module, *end.buffer, row.slot);
  for (Arrival &arrival : arrivals) {
    if (!meet(row, arrival.row))
      continue;
    std::byte *target = addressOf(arrival);
    for (Incoming &part : arrival.parts) {
      if (!part.self || part.here)
        continue;
      copyRuns(block, runs, target, part.runs, unit);
      part.here = true;
      return;
    }
  }
  size_t bytes = 0;
  for (const RowRun &run : runs)
    bytes += size_t(run.count) * unit;
  size_t most = planned.message[2 * size_t(row.index) + row.gradient];
  stashes.push_back({row, fabric.pool().take(std::max(bytes, most))});
  pack(stashes.back().packed.get(), block, runs, unit);
}

void Transfers::copy(const TaskRow &row) {
  End from = endOf(row.index, row.gradient, true),
      to = endOf(row.index, row.gradient, false);
  ItemRows source = items(*from.edge, from.shape, from.producer, row.microbatch,
                          partOf(from.module, row));
  if (*source.items != *items(*from.edge, from.shape, to.producer,
                              row.microbatch, partOf(to.module, row))
                            .items)
    throw Error(
        "step cannot run: " + labels[2 * size_t(row.index) + row.gradient] +
        " is a copy, but its ends have different items");
  device::copy(regions.address(to.module, *to.buffer, row.peer),
               regions.address(from.module, *from.buffer, row.slot),
               size_t(source.total()) * rowBytes(from, row));
  pad(to, row, regions.address(to.module, *to.buffer, row.peer));
}

/// Rows behind those of the last item, which no message brings, are 0.
void Transfers::pad(const End &end, const TaskRow &row,
                    std::byte *block) const {
  int symbol =
      end.producer ? end.shape.producerSymbol : end.shape.consumerSymbol;
  if (symbol < 0 ||
      program.modules[end.module].symbols[size_t(symbol)].multiple == 1)
    return;
  const Part &part =
      batch->part(program, end.module, row.microbatch, row.piece);
  size_t unit = rowBytes(end, row);
  int64_t padding = paddingOf(part, size_t(symbol)),
          rows = part.dims[size_t(symbol)] - padding;
  if (padding)
    device::zero(block + size_t(rows) * unit, size_t(padding) * unit);
}

void Transfers::prepare(const TaskRow &row) {
  callUpTo(row);
  auto isWaitedFor = [&](const TaskRow *other) {
    return std::find(row.waits.begin(), row.waits.end(),
                     int32_t(other - rows.begin())) != row.waits.end();
  };
  std::list<Arrival> ready;
  for (auto it = arrivals.begin(); it != arrivals.end();) {
    auto next = std::next(it);
    if (isWaitedFor(it->posted))
      ready.splice(ready.end(), arrivals, it);
    it = next;
  }
  for (Arrival &arrival : ready)
    complete(arrival);
  for (auto it = ready.begin(); it != ready.end(); ++it) {
    // Of messages from several parts the first one is enough.
    bool first = sharersOf(*it->end.edge, placement, it->end.module) > 1;
    const ModuleInfo &module = program.modules[it->end.module];
    for (auto before = ready.begin(); before != it; ++before)
      first &= before->row.index != it->row.index ||
               before->row.gradient != it->row.gradient ||
               taskOf(module, before->row.microbatch) !=
                   taskOf(module, it->row.microbatch);
    if (first)
      gather(*it);
  }
  for (auto it = departures.begin(); it != departures.end();)
    if (isWaitedFor(it->begun)) {
      it->request.wait();
      it = departures.erase(it);
    } else {
      ++it;
    }
}

/// Messages of an arrival are there: packed ones are put in place.
void Transfers::complete(Arrival &arrival) {
  std::byte *block = addressOf(arrival);
  size_t unit = rowBytes(arrival.end, arrival.row);
  for (Incoming &part : arrival.parts) {
    part.request.wait();
    if (part.self && !part.here)
      throw Error("step cannot run: what reads " +
                  labels[2 * arrival.row.index + arrival.row.gradient] +
                  " comes before what sends it");
    if (part.isPacked())
      unpack(block, static_cast<std::byte *>(part.to), part.runs, unit);
  }
  pad(arrival.end, arrival.row, block);
  arrival.parts.clear();
  arrival.packed.reset();
}

/// Every rank of the replica has its chunk; afterwards all have all.
void Transfers::gather(const Arrival &arrival) {
  const End &end = arrival.end;
  const Placement::Place &place = placement.at(end.module);
  int64_t tp = placement.tp(end.module);
  ItemRows all = items(*end.edge, end.shape, end.producer,
                       arrival.row.microbatch, partOf(end.module, arrival.row));
  if (all.total() == 0)
    return;
  size_t unit = rowBytes(end, arrival.row);
  std::byte *block = addressOf(arrival);
  std::vector<size_t> sizes;
  RowRun own{0, 0};
  for (int64_t t = 0; t < tp; ++t) {
    RowRun chunk =
        (end.producer ? leavingFrom(all, tp, t) : arrivingAt(all, tp, t)).rows;
    sizes.push_back(size_t(chunk.count) * unit);
    if (t == place.tp)
      own = chunk;
  }
  const std::string &name =
      gathers[2 * size_t(arrival.row.index) + arrival.row.gradient];
  groups[end.module]->allGatherV(block + size_t(own.first) * unit, block, sizes,
                                 name.c_str());
}

void Transfers::poll() {
  fabric.poll();
  for (auto it = departures.begin(); it != departures.end();)
    it = it->request.test() ? departures.erase(it) : std::next(it);
}

void Transfers::finish() {
  for (Arrival &arrival : arrivals)
    complete(arrival);
  arrivals.clear();
  stashes.clear();
  for (Departure &departure : departures)
    departure.request.wait();
  departures.clear();
}

} // namespace dt::rt
