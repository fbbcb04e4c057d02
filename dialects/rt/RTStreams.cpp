//===- RTStreams.cpp - Which ops of a function are ordered ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTStreams.h"

using namespace mlir;
using namespace dt::rt;

Stream dt::rt::getStream(Operation *op) {
  auto collective = dyn_cast<CollectiveOp>(op);
  return collective ? collective.getStream() : Stream::compute;
}

LogicalResult WaitOp::verify() {
  auto record = getEvent().getDefiningOp<RecordOp>();
  if (record.getStream() != getStream())
    return success();
  InFlightDiagnostic diagnostic = emitOpError()
                                  << "waits for its own stream, which is "
                                     "always in order";
  diagnostic.attachNote(record.getLoc()) << "recorded here";
  return diagnostic;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

StreamOrder::StreamOrder(FuncOp function) {
  std::array<Clock, kStreams> now;
  for (Clock &clock : now)
    clock.fill(kNothing);
  Clock &compute = now[unsigned(Stream::compute)];
  compute[unsigned(Stream::compute)] = kEntry;
  llvm::DenseMap<Value, Clock> events;
  for (Operation &op : function.getBody().front()) {
    int64_t place = ops.size();
    ops.push_back(&op);
    position[&op] = place;
    unsigned stream = unsigned(getStream(&op));
    if (auto record = dyn_cast<RecordOp>(op)) {
      events[record] = now[unsigned(record.getStream())];
    } else if (auto wait = dyn_cast<WaitOp>(op)) {
      Clock &clock = now[unsigned(wait.getStream())];
      for (auto [mine, other] : llvm::zip(clock, events.at(wait.getEvent())))
        mine = std::max(mine, other);
    }
    begins.push_back(now[stream]);
    if (!isa<RecordOp, WaitOp>(op))
      now[stream][stream] = place;
  }
  exit = compute;
}

bool StreamOrder::isOrdered(Operation *first, Operation *second) const {
  return begins[getPosition(second)][unsigned(getStream(first))] >=
         getPosition(first);
}

bool StreamOrder::isAfterEntry(Operation *op) const {
  return begins[getPosition(op)][unsigned(Stream::compute)] >= kEntry;
}

bool StreamOrder::isBeforeExit(Operation *op) const {
  return exit[unsigned(getStream(op))] >= getPosition(op);
}

std::pair<int64_t, int64_t> StreamOrder::getSpan(Operation *op) const {
  int64_t place = getPosition(op);
  if (getStream(op) == Stream::compute)
    return {place, place};
  int64_t last = place;
  while (last + 1 < int64_t(ops.size()) &&
         !(getStream(ops[last + 1]) == Stream::compute &&
           isOrdered(op, ops[last + 1])))
    ++last;
  return {begins[place][unsigned(Stream::compute)] + 1, last};
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

bool dt::rt::mayConflict(Operation *a, Operation *b, const BufferBytes &bytes) {
  if (isa<ViewOp>(a) || isa<ViewOp>(b))
    return false;
  Writes writesA(a), writesB(b);
  for (OpOperand &x : a->getOpOperands())
    for (OpOperand &y : b->getOpOperands())
      if (isa<BufferType>(x.get().getType()) &&
          isa<BufferType>(y.get().getType()) &&
          (writesA.contains(x.getOperandNumber()) ||
           writesB.contains(y.getOperandNumber())) &&
          bytes.mayShare(x.get(), y.get()))
        return true;
  return false;
}

/// What holds of an op beside the compute stream, whatever else there is.
static LogicalResult verifyBeside(Operation *op, const StreamOrder &order) {
  if (!order.isAfterEntry(op))
    return op->emitOpError("does not wait for what the function's caller has "
                           "on the compute stream");
  if (!order.isBeforeExit(op))
    return op->emitOpError("is not waited for by the compute stream before "
                           "the function ends");
  for (Value operand : op->getOperands())
    if (getViewedBuffer(operand).getDefiningOp<GradientOp>())
      return op->emitOpError("touches a gradient, which sums over replicas "
                             "expect on the compute stream");
  return success();
}

LogicalResult dt::rt::verifyStreams(FuncOp function, const BufferBytes &bytes) {
  for (auto record : function.getBody().getOps<RecordOp>())
    if (record.use_empty())
      return record.emitOpError("is an event that nothing waits for");
  StreamOrder order(function);
  Block &body = function.getBody().front();
  for (Operation &op : body) {
    if (getStream(&op) == Stream::compute)
      continue;
    if (failed(verifyBeside(&op, order)))
      return failure();
    for (Operation &other : body) {
      if (getStream(&other) == getStream(&op))
        continue;
      bool before = other.isBeforeInBlock(&op);
      Operation *first = before ? &other : &op, *second = before ? &op : &other;
      if (order.isOrdered(first, second) || !mayConflict(first, second, bytes))
        continue;
      InFlightDiagnostic diagnostic = second->emitOpError()
                                      << "touches bytes of an op on stream "
                                      << stringifyStream(getStream(first))
                                      << " that may still run";
      diagnostic.attachNote(first->getLoc()) << "which is this";
      return diagnostic;
    }
  }
  return success();
}
