//===- FuseElementwise.cpp - Connected elementwise ops into nn.fused ------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Groups are found first (a union of ops that grows along use-def edges), then
// each becomes one op, then ops go behind what they use again.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNInference.h"
#include "passes/optimize/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dt::optimize {
#define GEN_PASS_DEF_FUSEELEMENTWISE
#define GEN_PASS_DEF_VERIFYOPTIMIZED
#include "passes/optimize/Passes.h.inc"

namespace {

bool isElementwise(Operation *op) {
  return isa<nn::ScalarOpInterface>(op) && op->getNumResults() == 1;
}

bool widens(Operation *op) {
  return op->getNumResults() == 1 && nn::widened(op->getResult(0));
}

bool isPartOfAttention(Operation *op) {
  if (auto forward = dyn_cast_or_null<nn::AttentionOp>(op))
    return forward.getPartial();
  auto backward = dyn_cast_or_null<nn::AttentionGradOp>(op);
  return backward && backward.getPartial();
}

/// The value that an operand repeats: the input of a broadcast.
Value throughBroadcast(Value v) {
  while (auto broadcast = v.getDefiningOp<nn::BroadcastOp>())
    v = broadcast.getInput();
  return v;
}

/// The element of a splat constant, or null.
TypedAttr splatElement(Value v) {
  auto constant = v.getDefiningOp<nn::ConstantOp>();
  if (!constant || !constant.getValue().isSplat())
    return nullptr;
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!dense)
    return nullptr;
  auto value = cast<TypedAttr>(dense.getSplatValue<Attribute>());
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return IntegerAttr::get(nn::scalarOf(v), integer.getValue());
  if (nn::isNarrow(v))
    return FloatAttr::get(nn::scalarOf(v),
                          cast<FloatAttr>(value).getValueAsDouble());
  return value;
}

using Group = llvm::SetVector<Operation *>;

/// The groups of one block.
class Grouping {
public:
  Grouping(Block &block, unsigned maxBuffers)
      : block(block), maxBuffers(maxBuffers) {
    unsigned position = 0;
    for (Operation &op : block) {
      order[&op] = position++;
      if (Operation *part = findLastPart(&op))
        lastPart[&op] = part;
    }
  }

  SmallVector<Group> run() {
    for (Operation &op : block)
      if (isElementwise(&op)) {
        groups[&op].insert(&op);
        leader[&op] = &op;
      }
    for (Operation &op : block)
      if (isElementwise(&op))
        for (Value operand : op.getOperands())
          if (Operation *producer = operand.getDefiningOp())
            tryJoin(producer, &op);
    joinReaders();
    SmallVector<Group> result;
    for (Operation &op : block)
      if (auto it = groups.find(&op); it != groups.end()) {
        Group sorted = it->second;
        SmallVector<Operation *> ops(sorted.begin(), sorted.end());
        llvm::sort(ops, [&](Operation *a, Operation *b) {
          return order[a] < order[b];
        });
        result.emplace_back(ops.begin(), ops.end());
      }
    return result;
  }

private:
  /// Groups that read one tensor of their full shape: read once, and what they
  /// both compute from it (say, an activation and its gradient) is computed
  /// once.
  void joinReaders() {
    for (Operation &op : block)
      if (isElementwise(&op))
        for (Value operand : op.getOperands())
          if (operand.getType() == op.getResult(0).getType() &&
              operand.getParentBlock() == &block)
            for (Operation *other : operand.getUsers())
              if (other->getBlock() == &block && other->isBeforeInBlock(&op))
                tryJoin(other, &op);
  }

  void tryJoin(Operation *producer, Operation *consumer) {
    if (producer->getBlock() != &block || !leader.count(producer))
      return;
    Operation *a = leader[producer], *b = leader[consumer];
    if (a == b ||
        nn::getShape(producer->getResult(0)) !=
            nn::getShape(consumer->getResult(0)) ||
        areOfTwoParts(a, b) || buffersOf(a, b) > maxBuffers ||
        pathOutside(a, b))
      return;
    Group moved = std::move(groups[b]);
    groups.erase(b);
    for (Operation *op : moved) {
      groups[a].insert(op);
      leader[op] = a;
    }
  }

  /// The last attention to a part of the keys that an op waits for.
  Operation *findLastPart(Operation *op) {
    Operation *last = nullptr;
    for (Value v : op->getOperands())
      if (Operation *made = v.getDefiningOp(); made && order.count(made)) {
        Operation *part =
            isPartOfAttention(made) ? made : lastPart.lookup(made);
        if (part && (!last || order[last] < order[part]))
          last = part;
      }
    return last;
  }
  /// What parts give is merged as they come: with a later part's, all parts
  /// would be kept up to there.
  bool areOfTwoParts(Operation *a, Operation *b) {
    Operation *last = nullptr;
    for (Operation *leader : {a, b})
      for (Operation *op : groups[leader])
        if (Operation *part = widens(op) ? nullptr : lastPart.lookup(op)) {
          if (last && part != last)
            return true;
          last = part;
        }
    return false;
  }

  unsigned buffersOf(Operation *a, Operation *b) {
    auto inside = [&](Operation *op) {
      return groups[a].contains(op) || groups[b].contains(op);
    };
    llvm::SmallPtrSet<Value, 16> buffers;
    for (Operation *leader : {a, b})
      for (Operation *op : groups[leader]) {
        for (Value v : op->getOperands())
          if (!v.getDefiningOp() || !inside(v.getDefiningOp()))
            buffers.insert(throughBroadcast(v));
        if (!llvm::all_of(op->getUsers(), inside))
          buffers.insert(op->getResult(0));
      }
    return buffers.size();
  }

  /// Ops that stand as one: a group, or an op of none.
  ArrayRef<Operation *> together(Operation *op) {
    auto it = leader.find(op);
    if (it == leader.end()) {
      single = op;
      return single;
    }
    return groups[it->second].getArrayRef();
  }

  /// Whether something outside of both groups uses one and feeds either: that
  /// is a cycle once they are one op.
  bool pathOutside(Operation *a, Operation *b) {
    SmallVector<Operation *> work;
    llvm::SmallPtrSet<Operation *, 32> seen;
    auto inside = [&](Operation *op) {
      auto it = leader.find(op);
      return it != leader.end() && (it->second == a || it->second == b);
    };
    // A group runs as a whole: who reaches one member reaches what uses any.
    auto pushUsers = [&](Operation *op, bool start) -> bool {
      for (Operation *user : op->getUsers()) {
        Operation *local = block.findAncestorOpInBlock(*user);
        if (!local)
          continue;
        if (inside(local)) {
          if (!start)
            return true;
          continue;
        }
        for (Operation *member : together(local))
          if (seen.insert(member).second)
            work.push_back(member);
      }
      return false;
    };
    for (Operation *l : {a, b})
      for (Operation *op : groups[l])
        pushUsers(op, /*start=*/true);
    while (!work.empty()) {
      if (pushUsers(work.pop_back_val(), /*start=*/false))
        return true;
    }
    return false;
  }

  Block &block;
  unsigned maxBuffers;
  llvm::DenseMap<Operation *, unsigned> order;
  llvm::DenseMap<Operation *, Operation *> leader, lastPart;
  llvm::DenseMap<Operation *, Group> groups;
  Operation *single = nullptr;
};

/// What is widened is widened again by each group that takes it: nothing wide
/// is stored, and half the bytes are read.
void widenAgain(MutableArrayRef<Group> groups) {
  llvm::DenseMap<Operation *, Group *> groupOf;
  for (Group &group : groups)
    for (Operation *op : group)
      groupOf[op] = &group;
  for (Group &group : groups)
    for (Operation *op : SmallVector<Operation *>(group.getArrayRef())) {
      if (!widens(op) || group.size() == 1)
        continue;
      llvm::MapVector<Group *, Operation *> copies;
      for (OpOperand &use : llvm::make_early_inc_range(op->getUses())) {
        Group *other = groupOf.lookup(use.getOwner());
        if (!other || other == &group)
          continue;
        Operation *&copy = copies[other];
        if (!copy) {
          copy = OpBuilder(op).clone(*op);
          copy->moveAfter(op);
        }
        use.set(copy->getResult(0));
      }
      for (auto [other, copy] : copies) {
        Group with;
        with.insert(copy);
        with.insert_range(*other);
        *other = std::move(with);
      }
    }
}

/// "silu_mul", from what is fused; long chains are cut.
std::string nameOf(const Group &group) {
  constexpr size_t most = 4;
  SmallVector<StringRef> names;
  for (Operation *op : group) {
    StringRef name = op->getName().stripDialect();
    if (names.empty() || names.back() != name)
      names.push_back(name);
  }
  std::string text =
      llvm::join(ArrayRef<StringRef>(names).take_front(most), "_");
  return names.size() > most ? text + "_etc" : text;
}

/// Makes the group one nn.fused at the place of its last op.
class GroupBuilder {
public:
  GroupBuilder(const Group &group) : group(group) {}

  void run() {
    Operation *last = group.back();
    OpBuilder b(last);
    SmallVector<Location> locations;
    SmallVector<Operation *> outputs;
    for (Operation *op : group) {
      locations.push_back(op->getLoc());
      if (!llvm::all_of(op->getUsers(),
                        [&](Operation *u) { return group.contains(u); }))
        outputs.push_back(op);
    }
    SmallVector<Type> types;
    for (Operation *op : outputs)
      types.push_back(op->getResult(0).getType());
    collectInputs();
    auto fused =
        nn::FusedOp::create(b, last->getLoc(), types, inputs.getArrayRef());
    fused.setKernel(nameOf(group));
    buildBody(b, fused, outputs);
    for (auto [op, result] : llvm::zip(outputs, fused.getResults()))
      op->getResult(0).replaceAllUsesWith(result);
    SmallVector<Operation *> dead(group.begin(), group.end());
    for (Operation *op : llvm::reverse(dead))
      op->erase();
  }

private:
  void collectInputs() {
    for (Operation *op : group)
      for (Value v : op->getOperands()) {
        Operation *producer = v.getDefiningOp();
        if (producer && group.contains(producer))
          continue;
        Value source = throughBroadcast(v);
        if (!splatElement(source))
          inputs.insert(source);
      }
  }

  void buildBody(OpBuilder &b, nn::FusedOp fused,
                 ArrayRef<Operation *> outputs) {
    OpBuilder::InsertionGuard guard(b);
    Block *body = b.createBlock(&fused.getBody());
    llvm::DenseMap<Value, Value> scalars;
    for (Value v : inputs)
      scalars[v] = body->addArgument(nn::scalarOf(v), v.getLoc());
    for (Operation *op : group) {
      SmallVector<Value> elements;
      for (Value v : op->getOperands()) {
        Value source = scalars.count(v) ? v : throughBroadcast(v);
        if (Value known = scalars.lookup(source)) {
          elements.push_back(known);
          continue;
        }
        elements.push_back(
            arith::ConstantOp::create(b, op->getLoc(), splatElement(source)));
      }
      scalars[op->getResult(0)] =
          cast<nn::ScalarOpInterface>(op).buildScalar(b, elements);
    }
    SmallVector<Value> results;
    for (Operation *op : outputs)
      results.push_back(scalars.lookup(op->getResult(0)));
    nn::YieldOp::create(b, fused.getLoc(), results);
  }

  const Group &group;
  llvm::SetVector<Value> inputs;
};

/// Puts each op that stands ahead of what it uses right behind the last of
/// that, others stay in their order: what nobody puts off dies soon.
class Reorder {
public:
  explicit Reorder(Block &block) : block(block) {
    for (Operation &op : block.without_terminator())
      order[&op] = ops.size(), ops.push_back(&op);
  }

  void run() {
    for (Operation *op : ops)
      if (!isReady(op))
        putOff.insert(op);
      else
        place(op);
  }

private:
  bool isReady(Operation *op) {
    return !op->walk([&](Operation *inner) {
                for (Value operand : inner->getOperands()) {
                  Operation *made = operand.getDefiningOp();
                  Operation *local =
                      made ? block.findAncestorOpInBlock(*made) : nullptr;
                  if (local && local != op && !placed.contains(local))
                    return WalkResult::interrupt();
                }
                return WalkResult::advance();
              }).wasInterrupted();
  }

  void place(Operation *first) {
    SmallVector<Operation *> work{first};
    while (!work.empty()) {
      Operation *op = work.pop_back_val();
      op->moveBefore(block.getTerminator());
      placed.insert(op);
      SmallVector<Operation *> next;
      for (Operation *user : op->getUsers())
        if (Operation *local = block.findAncestorOpInBlock(*user);
            putOff.contains(local) && isReady(local)) {
          putOff.erase(local);
          next.push_back(local);
        }
      llvm::sort(next, [&](Operation *a, Operation *b) {
        return order.lookup(a) > order.lookup(b);
      });
      llvm::append_range(work, next);
    }
  }

  Block &block;
  SmallVector<Operation *> ops;
  llvm::DenseMap<Operation *, unsigned> order;
  llvm::DenseSet<Operation *> placed, putOff;
};

struct FuseElementwise : impl::FuseElementwiseBase<FuseElementwise> {
  using FuseElementwiseBase::FuseElementwiseBase;

  void runOnOperation() override {
    getOperation().walk([&](func::FuncOp f) {
      for (Block &block : f.getBody())
        fuse(block);
    });
  }

  void fuse(Block &block) {
    // What nobody uses would become a result.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
    SmallVector<Group> groups = Grouping(block, maxBuffers).run();
    widenAgain(groups);
    for (const Group &group : groups)
      GroupBuilder(group).run();
    Reorder(block).run();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
};

struct VerifyOptimized : impl::VerifyOptimizedBase<VerifyOptimized> {
  void runOnOperation() override {
    WalkResult walk = getOperation().walk([](Operation *op) {
      if (!isa<nn::ScalarOpInterface>(op))
        return WalkResult::advance();
      op->emitOpError("stands outside of nn.fused");
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
} // namespace dt::optimize
