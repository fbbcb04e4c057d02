//===- Transfers.h - messages between modules -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What the rows Receive, Send and Copy do. Which rows of a tensor go where is
// computed on both ends (Routes.h); a message has the rows of one (edge,
// microbatch, direction, pair of parts, pair of ranks). Where they lie together
// they go straight from and into the arena, else through a packed copy. All of
// it is device memory.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_TRANSFERS_H
#define DT_RUNTIME_STEP_TRANSFERS_H

#include "runtime/comm/Fabric.h"
#include "runtime/data/BatchSource.h"
#include "runtime/state/Regions.h"
#include "runtime/step/MessageOrder.h"
#include "runtime/step/Routes.h"

#include <list>

namespace dt::rt {

class Transfers {
public:
  /// `groups`: per module the tensor-parallel group of this rank's replica;
  /// null where the module is not on this rank, or nothing arrives there.
  /// `planned`: what the fabric's pools have (planMessages).
  Transfers(const ProgramInfo &program, const Placement &placement,
            const Regions &regions, Fabric &fabric,
            const std::vector<FabricGroup *> &groups,
            const MessageBlocks &planned);

  /// `batch` must live until finish().
  void beginStep(const Batch &batch);
  void receive(const TaskRow &row);
  /// Returns the bytes for other ranks.
  uint64_t send(const TaskRow &row);
  void copy(const TaskRow &row);
  /// Before a row: waits for the messages that it says, and gathers what has
  /// come over the tensor-parallel group.
  void prepare(const TaskRow &row);
  /// Moves messages on.
  void poll();
  /// Ends everything that is under way.
  void finish();

  /// Key of an edge's bytes in Comm::traffic.
  static std::string label(const ProgramInfo &program, size_t edge,
                           bool gradient);

private:
  /// One direction of an edge on this rank.
  struct End {
    const EdgeInfo *edge;
    EdgeShape shape;
    size_t module;
    const BufferInfo *buffer;
    bool producer; ///< of the forward direction
  };
  struct Incoming {
    int from = -1;
    void *to = nullptr;
    size_t bytes = 0;
    Request request;
    std::vector<RowRun> runs;
    bool self = false, here = false; ///< from this rank; has come
    bool isPacked() const { return !self && runs.size() > 1; }
  };
  /// What rows of a task pack, one behind the other.
  struct Packed {
    TaskRow row; ///< one of them
    device::Pool::Block block;
    size_t size = 0, used = 0; ///< bytes
    std::byte *add(size_t bytes) {
      used += bytes;
      return block.get() + used - bytes;
    }
  };
  struct Arrival {
    TaskRow row;
    const TaskRow *posted; ///< in the rank's list
    End end;
    std::vector<Incoming> parts;
    std::shared_ptr<Packed> packed; ///< null: nothing is packed
  };
  struct Departure {
    const TaskRow *begun; ///< in the rank's list
    /// Outlives the requests of the row; null: nothing was packed.
    std::shared_ptr<Packed> packed;
    Request request;
  };
  /// From this rank to itself, sent before it was asked for.
  struct Stash {
    TaskRow row;
    device::Pool::Block packed;
  };

  End endOf(size_t edge, bool gradient, bool sending) const;
  void pad(const End &end, const TaskRow &row, std::byte *block) const;
  ItemRows items(const EdgeInfo &edge, const EdgeShape &shape, bool producer,
                 int64_t microbatch, int32_t part) const;
  /// The part of `module` on this rank that a row is about.
  int32_t partOf(size_t module, const TaskRow &row) const;
  /// Of a row of the block: of 1 of what the edge's symbol counts.
  size_t rowBytes(const End &end, const TaskRow &row) const;
  /// Whether a rank's row that sends is the other end of one that receives.
  bool meet(const TaskRow &sends, const TaskRow &receives) const;
  /// For every rank of the other end's part that there is a message with:
  /// `body(rank, route)`.
  template <typename Body>
  void forRoutes(const End &own, const TaskRow &row, Body body) const;
  std::byte *addressOf(const Arrival &arrival) const {
    return regions.address(arrival.end.module, *arrival.end.buffer,
                           arrival.row.slot);
  }
  /// The block for `bytes` more that a row packs, from `used` on; null: of 0.
  std::shared_ptr<Packed> packedFor(const TaskRow &row, size_t bytes);
  void receiveFromSelf(Arrival &arrival, Incoming &part);
  void sendToSelf(const TaskRow &row, const End &end,
                  const std::vector<RowRun> &runs, size_t unit);
  void call(const Arrival &arrival, Incoming &part);
  void callUpTo(const TaskRow &row);
  void complete(Arrival &arrival);
  void gather(const Arrival &arrival);

  const ProgramInfo &program;
  const Placement &placement;
  const Regions &regions;
  Fabric &fabric;
  std::vector<FabricGroup *> groups;
  const MessageBlocks &planned;
  std::vector<EdgeShape> shapes;
  std::vector<std::string> labels, gathers; ///< [2 * edge + gradient]
  const Span<TaskRow> &rows;
  std::vector<CallPlace> places; ///< where messages have an order
  size_t called = 0;             ///< of these
  const Batch *batch = nullptr;
  std::list<Arrival> arrivals;
  std::list<Departure> departures;
  std::list<Stash> stashes;
};

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_TRANSFERS_H
