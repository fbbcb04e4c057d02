//===- PlaceStreams.cpp - What runs beside the compute stream ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A collective that some product does not need, nor it the product, goes to the
// stream tp. Products that only end in gradients are moved behind collectives
// that have nothing else to run beside them. Then events are put where ops of
// two streams touch the same bytes: each is needed when it is put there, and
// what comes later cannot make it needless.
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTStreams.h"
#include "passes/lower/Passes.h"

using namespace mlir;

namespace dt::lower {
#define GEN_PASS_DEF_PLACESTREAMS
#include "passes/lower/Passes.h.inc"

namespace {

/// A library call on tensors: long enough to hide a collective.
bool isProduct(Operation *op) {
  return isa<rt::MatmulOp, rt::ConvOp, rt::ConvDxOp, rt::ConvDwOp,
             rt::AttentionOp, rt::AttentionGradOp, rt::GroupedMatmulOp,
             rt::GroupedMatmulDwOp>(op);
}
bool isLong(Operation *op) { return isProduct(op) || isa<rt::CallOp>(op); }

bool touchesGradient(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value v) {
    return rt::getViewedBuffer(v).getDefiningOp<rt::GradientOp>();
  });
}

/// Which collectives of a function run beside the compute stream.
class Chooser {
public:
  Chooser(rt::FuncOp function, const rt::BufferBytes &bytes)
      : collectives(function.getBody().getOps<rt::CollectiveOp>()),
        bytes(bytes) {}

  void run() {
    Operation *previous = nullptr;
    for (rt::CollectiveOp collective : collectives) {
      if (!runsBeside(collective))
        fillBehind(collective, previous);
      previous = collective;
    }
    for (rt::CollectiveOp collective : collectives)
      if (runsBeside(collective) && !touchesGradient(collective))
        collective.setStream(rt::Stream::tp);
  }

private:
  bool conflict(Operation *a, Operation *b) const {
    return rt::mayConflict(a, b, bytes);
  }

  /// Whether a long op stands between what the collective needs and what needs
  /// it.
  bool runsBeside(Operation *collective) const {
    for (Operation *op = collective->getPrevNode();
         op && !conflict(op, collective); op = op->getPrevNode())
      if (isLong(op))
        return true;
    for (Operation *op = collective->getNextNode();
         op && !conflict(op, collective); op = op->getNextNode())
      if (isLong(op))
        return true;
    return false;
  }

  /// Products that nothing up to the collective needs go behind it: those
  /// behind what runs beside the collective before, else the last one that no
  /// other collective has alone beside it.
  void fillBehind(rt::CollectiveOp collective, Operation *previous) {
    Operation *end = previous;
    while (end && end != collective &&
           (end == previous || !conflict(previous, end)))
      end = end->getNextNode();
    for (Operation *op = collective->getPrevNode(), *next; op; op = next) {
      next = op->getPrevNode();
      bool isNear = !end || !op->isBeforeInBlock(end);
      if (!isNear && runsBeside(collective))
        return;
      if (isProduct(op) && canFollow(op, collective))
        moveBehind(op, collective, isNear);
    }
  }

  void moveBehind(Operation *op, rt::CollectiveOp collective, bool always) {
    SmallVector<rt::CollectiveOp> covered;
    llvm::copy_if(collectives, std::back_inserter(covered),
                  [&](rt::CollectiveOp other) { return runsBeside(other); });
    Operation *place = op->getNextNode();
    op->moveAfter(collective);
    if (!always && !llvm::all_of(covered, [&](rt::CollectiveOp other) {
          return runsBeside(other);
        }))
      op->moveBefore(place);
  }

  bool canFollow(Operation *op, Operation *last) const {
    for (Operation *next = op; next != last;) {
      next = next->getNextNode();
      if (conflict(op, next))
        return false;
    }
    return true;
  }

  SmallVector<rt::CollectiveOp> collectives;
  const rt::BufferBytes &bytes;
};

/// Puts an event wherever two ops would else not be ordered. Ops are counted as
/// they stood before.
class EventPlacer {
public:
  EventPlacer(rt::FuncOp function, const rt::BufferBytes &bytes)
      : bytes(bytes), b(function.getContext()) {
    for (Operation &op : function.getBody().front())
      ops.push_back(&op);
  }

  void run() {
    for (int64_t i = 0; i < int64_t(ops.size()); ++i) {
      bool beside = isBeside(i);
      int64_t needed = getNeeded(i);
      if (needed > ended[beside][!beside])
        join(i, needed);
      else if (beside && followsAnother(i))
        joinHere(i);
      begins.push_back(ended[beside]);
      ended[beside][beside] = i;
    }
    if (ended[true][true] > ended[false][true]) {
      rt::RecordOp event = recordAfter(ended[true][true]);
      b.setInsertionPointToEnd(event->getBlock());
      rt::WaitOp::create(b, event.getLoc(), event, rt::Stream::compute);
    }
  }

private:
  static constexpr int64_t kEntry = -1, kNothing = -2;
  /// Of the streams compute and tp the last op that has ended.
  using Clock = std::array<int64_t, 2>;

  bool isBeside(int64_t i) const {
    return rt::getStream(ops[i]) != rt::Stream::compute;
  }

  /// The last op of the other stream that must have ended before op `i` begins.
  int64_t getNeeded(int64_t i) const {
    bool beside = isBeside(i);
    for (int64_t k = i - 1; k >= 0 && k > ended[beside][!beside]; --k)
      if (isBeside(k) != beside && rt::mayConflict(ops[k], ops[i], bytes))
        return k;
    return beside ? kEntry : kNothing;
  }

  /// Puts an event behind op `needed` of the other stream, and has op `i` wait.
  void join(int64_t i, int64_t needed) {
    bool beside = isBeside(i);
    rt::RecordOp event;
    Clock clock;
    if (beside) {
      int64_t next = getStart(i, needed);
      clock = next == i ? ended[false] : begins[next];
      b.setInsertionPoint(ops[next]);
      event = rt::RecordOp::create(b, ops[i]->getLoc(), rt::Stream::compute);
    } else {
      clock = begins[needed];
      clock[true] = needed;
      event = recordAfter(needed);
    }
    b.setInsertionPoint(ops[i]);
    rt::WaitOp::create(b, ops[i]->getLoc(), event, rt::getStream(ops[i]));
    for (auto [mine, other] : llvm::zip(ended[beside], clock))
      mine = std::max(mine, other);
  }

  /// Whether a collective takes what one before it on its stream has made, so
  /// that nothing of the compute stream would keep it from beginning early.
  bool followsAnother(int64_t i) const {
    for (int64_t k = i - 1; k >= 0; --k)
      if (isBeside(k) && rt::mayConflict(ops[k], ops[i], bytes))
        return true;
    return false;
  }

  /// Has a collective wait for the place where it stands, behind long ops:
  /// what begins early takes memory early.
  void joinHere(int64_t i) {
    if (getStart(i, ended[true][false]) == i)
      return;
    b.setInsertionPoint(ops[i]);
    auto event = rt::RecordOp::create(b, ops[i]->getLoc(), rt::Stream::compute);
    rt::WaitOp::create(b, ops[i]->getLoc(), event, rt::getStream(ops[i]));
    for (auto [mine, other] : llvm::zip(ended[true], ended[false]))
      mine = std::max(mine, other);
  }

  rt::RecordOp recordAfter(int64_t i) {
    b.setInsertionPointAfter(ops[i]);
    return rt::RecordOp::create(b, ops[i]->getLoc(), rt::Stream::tp);
  }

  /// The op of the compute stream together with which a collective may begin: a
  /// long one is enough, and what begins early takes memory early.
  int64_t getStart(int64_t i, int64_t needed) const {
    for (int64_t k = i - 1; k > needed; --k)
      if (!isBeside(k) && isLong(ops[k]))
        return k;
    return i;
  }

  const rt::BufferBytes &bytes;
  OpBuilder b;
  SmallVector<Operation *> ops;
  std::vector<Clock> begins; ///< of each op: when it begins
  Clock ended[2] = {{kEntry, kNothing}, {kNothing, kNothing}};
};

struct PlaceStreams : impl::PlaceStreamsBase<PlaceStreams> {
  void runOnOperation() override {
    getOperation().walk([](rt::FuncOp function) {
      if (function.getBody().getOps<rt::CollectiveOp>().empty())
        return;
      rt::BufferBytes bytes(function);
      Chooser(function, bytes).run();
      EventPlacer(function, bytes).run();
    });
  }
};

} // namespace
} // namespace dt::lower
