//===- RTStreams.h - Which ops of a function are ordered --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An op begins when what stands before it in its stream has ended, and what
// that stream has waited for (docs/streams.md). Functions are straight-line, so
// one walk knows for every op how much of each stream has ended by then: a
// vector clock.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTSTREAMS_H
#define DIALECTS_RT_RTSTREAMS_H

#include "dialects/rt/RTBytes.h"

#include <array>

namespace dt::rt {

/// The stream of an op of a function's body.
Stream getStream(mlir::Operation *op);

class StreamOrder {
public:
  explicit StreamOrder(FuncOp function);

  /// Whether `first`, which stands before `second`, has ended when `second`
  /// begins.
  bool isOrdered(mlir::Operation *first, mlir::Operation *second) const;
  /// Whether the op comes after what the function's caller had queued.
  bool isAfterEntry(mlir::Operation *op) const;
  /// Whether what the caller queues next comes after the op.
  bool isBeforeExit(mlir::Operation *op) const;

  int64_t getPosition(mlir::Operation *op) const { return position.at(op); }
  /// Positions of the first and the last op of the compute stream that may run
  /// while this one does. Ops of which one's span ends before the other's
  /// begins are ordered.
  std::pair<int64_t, int64_t> getSpan(mlir::Operation *op) const;

private:
  static constexpr unsigned kStreams = 2;
  static constexpr int64_t kEntry = -1, kNothing = -2;
  /// Per stream the position of the last op that has ended.
  using Clock = std::array<int64_t, kStreams>;

  std::vector<mlir::Operation *> ops; ///< by position
  llvm::DenseMap<mlir::Operation *, int64_t> position;
  std::vector<Clock> begins; ///< by position: when the op begins
  Clock exit;
};

/// Whether the ops touch a byte in common that one of them writes.
bool mayConflict(mlir::Operation *a, mlir::Operation *b,
                 const BufferBytes &bytes);

/// All conflicting ops of a function are ordered, by its streams and events
/// alone; says otherwise on the later one. Places must be planned.
llvm::LogicalResult verifyStreams(FuncOp function, const BufferBytes &bytes);

} // namespace dt::rt

#endif // DIALECTS_RT_RTSTREAMS_H
