//===- MessagePlan.cpp - which blocks a rank's messages need --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/MessagePlan.h"
#include "runtime/data/PartGroups.h"
#include "runtime/device/Device.h"
#include "runtime/state/Wholes.h"
#include "runtime/step/Routes.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace dt::rt {

namespace {

/// Bytes of a tensor, from a dim on, in the largest part of its module.
size_t mostBytes(const TensorInfo &tensor, const ModuleInfo &module,
                 int32_t firstDim = 0) {
  std::vector<int64_t> most;
  for (const SymbolInfo &symbol : module.symbols)
    most.push_back(symbol.max);
  size_t bytes = sizeOf(tensor.type);
  for (int32_t i = firstDim; i < tensor.rank; ++i)
    bytes *= size_t(extentOf(tensor.shape[i], most.data()));
  return bytes;
}

/// What there is at most at one end of an edge, in one direction.
struct EndSize {
  size_t item;  ///< bytes of a row
  int64_t part; ///< rows of a part
  int64_t rank; ///< of these, of one of its replica's ranks
};

EndSize endSize(const ModuleInfo &module, const BufferInfo &buffer,
                int symbol) {
  const TensorInfo &tensor = buffer.tensor;
  if (symbol < 0)
    return {mostBytes(tensor, module), 1, 1};
  const SymbolInfo &info = module.symbols[size_t(symbol)];
  int64_t most = info.max, tp = module.wholeBatch ? 1 : std::max(1, module.tp);
  int32_t axis = rowAxis(tensor);
  // The rows of an item stay together.
  int64_t chunk = (most + tp - 1) / tp + (info.measure ? info.largest - 1 : 0);
  return {mostBytes(tensor, module, axis + 1) *
              size_t(tensor.shape[axis].scale),
          most, std::min(most, chunk)};
}

class MessagePlanner {
public:
  MessagePlanner(const ProgramInfo &program, const Placement &placement,
                 const Ownership &ownership, Carrier carrier)
      : program(program), placement(placement), ownership(ownership),
        carrier(carrier), groups(partGroups(program)) {}

  MessageBlocks run() {
    addEdges();
    walk(false);
    walk(true);
    for (auto &[bytes, count] : mostPacked)
      plan.packed[bytes] += count;
    for (auto &[bytes, count] : mostPinned)
      plan.pinned[bytes] += count;
    addFunctions();
    addSums();
    addScalars();
    addOne(plan.packed, packs[false]);
    addOne(plan.beside, packs[true]);
    addOne(plan.pinned, pinned);
    addOne(plan.combined, combined);
    return std::move(plan);
  }

private:
  bool isStaged() const { return carrier == Carrier::Host; }
  static void addOne(BlockCounts &counts, size_t bytes) {
    if (bytes)
      ++counts[bytes];
  }

  //===--- messages -------------------------------------------------------===//

  /// Whether the rows of a message lie together at its one end.
  bool areTogether(const EdgeInfo &edge, const EdgeShape &shape,
                   bool atProducer) const {
    const ModuleInfo &from = program.modules[size_t(edge.from)],
                     &to = program.modules[size_t(edge.to)];
    if (shape.consumerSymbol < 0)
      return true;
    // All rows of a part go into the whole batch, where they may lie anywhere.
    if (from.wholeBatch || to.wholeBatch)
      return !(atProducer ? from : to).wholeBatch;
    bool sameGroup =
        std::any_of(groups.begin(), groups.end(), [&](const PartGroup &group) {
          auto has = [&](int32_t m) {
            return std::count(group.modules.begin(), group.modules.end(), m);
          };
          return has(edge.from) && has(edge.to);
        });
    if (!sameGroup || spanOf(from) != spanOf(to) ||
        std::strcmp(itemOf(from), itemOf(to)))
      return false;
    // Pieces are runs of the items that the module works by.
    const char *item = to.symbols[size_t(shape.consumerSymbol)].item;
    return piecesOf(from) == piecesOf(to) || !std::strcmp(item, itemOf(to));
  }

  void addEdges() {
    plan.message.resize(2 * program.edges.size);
    plan.task.resize(4 * program.edges.size);
    for (size_t e = 0; e < program.edges.size; ++e) {
      const EdgeInfo &edge = program.edges[e];
      EdgeShape shape = edgeShape(program, edge);
      const ModuleInfo &from = program.modules[size_t(edge.from)],
                       &to = program.modules[size_t(edge.to)];
      for (bool gradient : {false, true}) {
        if (gradient && !edge.gradient)
          continue;
        EndSize producer = endSize(
            from,
            gradient ? edge.consumed : from.outputs[size_t(edge.fromOutput)],
            shape.producerSymbol);
        EndSize consumer = endSize(
            to,
            gradient ? edge.produced : to.inputs[size_t(edge.toInput)].buffer,
            shape.consumerSymbol);
        size_t item = std::min(producer.item, consumer.item);
        plan.message[2 * e + gradient] =
            size_t(std::min(producer.rank, consumer.rank)) * item;
        // All of the rank's items, whatever parts of the other end they are in.
        for (bool sends : {false, true}) {
          const EndSize &own = sends != gradient ? producer : consumer,
                        &other = sends != gradient ? consumer : producer;
          if (std::min(own.rank, other.part) > 1 &&
              !areTogether(edge, shape, sends != gradient))
            plan.task[4 * e + 2 * gradient + sends] = size_t(own.rank) * item;
        }
      }
    }
  }

  /// What is under way at a row of the step.
  struct Open {
    const TaskRow *row;
    const TaskRow *block; ///< whose block it packs into
    bool toSelf;          ///< sent to this rank, not received yet
    size_t packed, pinned, count;
  };

  /// Of all rows, or of those that lead to losses.
  void walk(bool forwardOnly) {
    const Span<TaskRow> &rows = program.ranks[size_t(placement.rank())].rows;
    std::vector<Open> open;
    for (size_t i = 0; i < rows.size; ++i) {
      const TaskRow &row = rows[i];
      if (forwardOnly && !leadsToLosses(row))
        continue;
      removeIf(open, [&](const Open &other) {
        return !other.toSelf && std::count(row.waits.begin(), row.waits.end(),
                                           int32_t(other.row - rows.begin()));
      });
      if (row.kind == TaskKind::Receive || row.kind == TaskKind::Send)
        addMessages(rows, i, open);
    }
  }

  template <typename Is> static void removeIf(std::vector<Open> &open, Is is) {
    open.erase(std::remove_if(open.begin(), open.end(), is), open.end());
  }

  void addMessages(const Span<TaskRow> &rows, size_t i,
                   std::vector<Open> &open) {
    const TaskRow &row = rows[i];
    bool sends = row.kind == TaskKind::Send;
    size_t edge = row.index, others = 0, self = 0;
    for (int rank : ranksAcross(program, placement, row, sends))
      rank == placement.rank() ? ++self : others += rank >= 0;
    size_t message = plan.message[2 * edge + row.gradient];
    if (others)
      open.push_back({&row, blockFor(row, open), false,
                      plan.task[4 * edge + 2 * row.gradient + sends], message,
                      others});
    auto meets = [&](const TaskRow &other) {
      return other.index == row.index && other.gradient == row.gradient &&
             messageNumber(program, other, !sends) ==
                 messageNumber(program, row, sends);
    };
    if (self && sends && !isPosted(rows, i, meets))
      open.push_back({&row, nullptr, true, message, 0, self});
    note(open);
    if (self && !sends)
      removeIf(open, [&](const Open &other) {
        return other.toSelf && meets(*other.row);
      });
  }

  /// That of a row of its task, if one is under way; else its own.
  const TaskRow *blockFor(const TaskRow &row,
                          const std::vector<Open> &open) const {
    for (const Open &other : open)
      if (!other.toSelf && packTogether(program, *other.row, row))
        return other.block;
    return &row;
  }

  template <typename Meets>
  static bool isPosted(const Span<TaskRow> &rows, size_t before, Meets meets) {
    return std::any_of(rows.begin(), rows.begin() + before,
                       [&](const TaskRow &other) {
                         return other.kind == TaskKind::Receive && meets(other);
                       });
  }

  /// Blocks by their bytes. There are few sizes, and they are counted for every
  /// message of a step.
  using Counts = std::vector<std::pair<size_t, size_t>>;
  static size_t &countOf(Counts &counts, size_t bytes) {
    for (auto &[size, count] : counts)
      if (size == bytes)
        return count;
    return counts.emplace_back(bytes, 0).second;
  }

  void note(const std::vector<Open> &open) {
    packed.clear();
    staged.clear();
    blocks.clear();
    for (const Open &message : open) {
      bool isKnown = !message.toSelf &&
                     std::count(blocks.begin(), blocks.end(), message.block);
      if (message.packed && !isKnown) {
        blocks.push_back(message.block);
        ++countOf(packed, message.packed);
      }
      if (isStaged() && message.pinned)
        countOf(staged, message.pinned) += message.count;
    }
    raise(mostPacked, packed);
    raise(mostPinned, staged);
  }

  static void raise(Counts &most, const Counts &counts) {
    for (auto [bytes, count] : counts) {
      size_t &known = countOf(most, bytes);
      known = std::max(known, count);
    }
  }

  //===--- collectives ----------------------------------------------------===//

  /// One that blocks, of so many elements or fewer.
  void addBlocking(CollectiveKind kind, DType type, int64_t count,
                   int64_t ranks) {
    if (ranks < 2)
      return;
    if (isStaged())
      pinned = std::max(pinned, pinnedBytes(kind, type, count, ranks));
    if (carrier == Carrier::Mpi)
      combined = std::max(combined, mpiCombinedBytes(kind, type, count, ranks));
    else if (carrier != Carrier::Nccl)
      combined =
          std::max(combined, mostCombinedBytes(kind, type, count, ranks));
  }

  bool runs(TaskFn function) const {
    for (size_t m = 0; m < program.modules.size; ++m) {
      const ModuleInfo &module = program.modules[m];
      if (placement.at(m).runs() &&
          (function == module.forward || function == module.backward ||
           function == module.backwardInput ||
           function == module.backwardWeight))
        return true;
    }
    for (const LossInfo &loss : program.losses)
      if (loss.denominator == function &&
          placement.at(size_t(loss.module)).runs())
        return true;
    return false;
  }

  /// Those of functions, and gathers of chunks that were received.
  void addFunctions() {
    for (const CollectiveInfo &info : program.collectives) {
      if (!runs(info.function))
        continue;
      addBlocking(info.kind, info.type, info.most, info.over);
      // Only NCCL has a stream beside that of all else.
      size_t &beside = packs[carrier == Carrier::Nccl];
      packs[false] = std::max(packs[false], size_t(info.packed));
      beside = std::max(beside, size_t(info.beside));
    }
    for (const TaskRow &row : program.ranks[size_t(placement.rank())].rows) {
      if (row.kind != TaskKind::Receive)
        continue;
      const EdgeInfo &edge = program.edges[row.index];
      size_t m = size_t(row.gradient ? edge.from : edge.to);
      const ModuleInfo &module = program.modules[m];
      const BufferInfo &buffer =
          row.gradient ? edge.consumed
                       : module.inputs[size_t(edge.toInput)].buffer;
      if (isStaged() && sharersOf(edge, placement, m) > 1)
        pinned = std::max(pinned, mostBytes(buffer.tensor, module));
    }
  }

  /// Gradients: over the axes of a replica, in buckets, of tied tensors;
  /// what an optimizer of matrices adds up; and parameters that ZeRO gathers.
  void addSums() {
    for (const SharedSum &sum :
         allSums(planWholes(program, placement, ownership))) {
      if (sum.overGroup())
        addBlocking(CollectiveKind::AllReduce, DType::F32, int64_t(sum.count),
                    ownership.groups(sum.module)[sum.group].size(placement,
                                                                 sum.module));
      for (auto [over, stride] : sum.axes)
        addBlocking(CollectiveKind::AllReduce, DType::F32, int64_t(sum.count),
                    over);
    }
    for (size_t m = 0; m < program.modules.size; ++m)
      if (placement.at(m).runs()) {
        addPartial(m);
        addBuckets(m);
      }
    for (const TieGroup &tie : ownership.ties())
      for (auto &[part, ranks] : holdersOf(program, placement, tie))
        if (ranks.count(placement.rank()))
          addBlocking(CollectiveKind::AllReduce, DType::F32,
                      int64_t(partElements(program.parameters[tie.rows[0]])),
                      int64_t(ranks.size()));
  }

  void addPartial(size_t m) {
    std::vector<size_t> rows;
    for (size_t p = 0; p < program.parameters.size; ++p)
      if (size_t(program.parameters[p].module) == m && ownership.updated(p))
        rows.push_back(p);
    for (size_t next = 0; next < rows.size();) {
      PartialRun run = ownership.takePartialRun(rows, next, SIZE_MAX);
      for (const CutInfo &axis : ownership.summedBefore(run.first))
        addBlocking(CollectiveKind::AllReduce,
                    program.parameters[run.first].gradientType,
                    int64_t(run.elements), axis.over);
    }
  }

  /// All of them may be under way at once; when parameters are gathered all
  /// sums have ended.
  void addBuckets(size_t m) {
    BlockCounts sums, gathers;
    for (const Bucket &bucket : ownership.buckets(m)) {
      DType type = program.narrowSums ? DType::BF16 : bucket.range.gradient;
      CollectiveKind kind = bucket.scatter ? CollectiveKind::ReduceScatter
                                           : CollectiveKind::AllReduce;
      int64_t count = int64_t(bucket.range.count),
              ranks = ownership.groups(m)[bucket.group].size(placement, m);
      if (carrier == Carrier::Tcp || isStaged())
        addOne(plan.combined, combinedBytes(kind, type, count, ranks));
      if (!isStaged())
        continue;
      addOne(sums, pinnedBytes(kind, type, count, ranks));
      if (bucket.scatter)
        addOne(gathers, pinnedBytes(CollectiveKind::AllGather,
                                    bucket.range.type, count / ranks, ranks));
    }
    for (auto [bytes, count] : gathers)
      sums[bytes] = std::max(sums[bytes], count);
    for (auto [bytes, count] : sums)
      plan.pinned[bytes] += count;
  }

  /// A step's numbers, over the fabric where device memory is not the host's;
  /// its inputs; and what ranks ask one another at the start, over TCP.
  void addScalars() {
    int64_t numbers =
        int64_t(program.losses.size) + 1 + int64_t(StepNumbers::kWishes);
    plan.readBack = StepNumbers::bytes(program.losses.size);
    if (carrier != Carrier::Mpi && placement.worldSize() > 1)
      combined = std::max(combined,
                          combinedBytes(CollectiveKind::AllReduce, DType::I64,
                                        1, placement.worldSize()));
    if (carrier == Carrier::Tcp || carrier == Carrier::Mpi)
      return;
    addBlocking(CollectiveKind::AllReduce, DType::F64, numbers,
                placement.worldSize());
    UploadSize inputs = uploadsOf(program, placement.rank());
    plan.uploads = device::uploadBytes(inputs.bytes, inputs.copies);
  }

  const ProgramInfo &program;
  const Placement &placement;
  const Ownership &ownership;
  Carrier carrier;
  std::vector<PartGroup> groups;
  MessageBlocks plan;
  Counts mostPacked, mostPinned; ///< of messages under way
  Counts packed, staged;         ///< of those at a row
  std::vector<const TaskRow *> blocks;
  /// Bytes of the largest call that blocks: packed (on the compute stream, and
  /// beside it), in pinned memory, before it is combined.
  size_t packs[2] = {}, pinned = 0, combined = 0;
};

} // namespace

MessageBlocks planMessages(const ProgramInfo &program,
                           const Placement &placement,
                           const Ownership &ownership, Carrier carrier) {
  return MessagePlanner(program, placement, ownership, carrier).run();
}

UploadSize uploadsOf(const ProgramInfo &program, int rank) {
  UploadSize size{StepNumbers::kWishes * sizeof(double), 1};
  auto add = [&](const ModuleInfo &module, size_t input) {
    size.bytes += mostBytes(module.inputs[input].buffer.tensor, module);
    ++size.copies;
  };
  for (const TaskRow &row : program.ranks[size_t(rank)].rows)
    if (row.kind == TaskKind::Denominator) {
      const LossInfo &loss = program.losses[row.index];
      for (int32_t input : loss.denominatorInputs)
        add(program.modules[size_t(loss.module)], size_t(input));
    } else if (row.kind == TaskKind::Forward) {
      const ModuleInfo &module = program.modules[row.index];
      for (size_t i = 0; i < module.inputs.size; ++i)
        if (module.inputs[i].fromModule < 0)
          add(module, i);
    }
  return size;
}

} // namespace dt::rt
