//===- GroupExperts.cpp - Rows of experts one after another ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// docs/experts.md. What treats rows alone gives the same rows in another order,
// so the products of one choice of experts and all that stands between them and
// behind them move to the order by expert, as far as rows stay rows.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNNumbers.h"
#include "passes/outline/Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace dt;
using nn::DimExpr;
using nn::Shape;

namespace dt::outline {
#define GEN_PASS_DEF_GROUPEXPERTS
#include "passes/outline/Passes.h.inc"
} // namespace dt::outline

namespace {

/// The dims as two: all but the last `inner`, and these.
Shape flatten(Value v, size_t inner) {
  Shape shape = nn::getShape(v);
  ArrayRef<DimExpr> dims(shape);
  return {nn::getNumElements(dims.drop_back(inner)),
          nn::getNumElements(dims.take_back(inner))};
}

/// x [.., 1, h], if the rows are each of its rows `each` times, one after
/// another; else nothing.
struct Repeated {
  Value rows;
  uint64_t each = 1;
};
Repeated matchRepeated(Value rows) {
  auto merge = rows.getDefiningOp<nn::ReshapeOp>();
  auto repeat = merge ? merge.getInput().getDefiningOp<nn::BroadcastOp>()
                      : nn::BroadcastOp();
  if (!repeat)
    return {};
  // [.., 1, h] -> [.., k, h]
  Shape from = nn::getShape(repeat.getInput()), to = nn::getShape(repeat);
  size_t rank = to.size();
  if (rank < 2 || from.size() != rank || from[rank - 2] != DimExpr(1) ||
      nn::getShape(rows) != flatten(repeat, 1))
    return {};
  from[rank - 2] = to[rank - 2];
  std::optional<int64_t> each = to[rank - 2].asConstant();
  if (from != to || !each || *each < 1)
    return {};
  return {repeat.getInput(), uint64_t(*each)};
}

/// The products of one choice of experts.
class Group {
public:
  Group(Value experts, ArrayRef<nn::ExpertLinearOp> products)
      : b(products.front()), products(products.begin(), products.end()) {
    nn::ExpertLinearOp first = products.front();
    loc = first.getLoc();
    count = nn::getShape(first.getExperts())[0];
    Shape weight = nn::getShape(first.getWeight());
    int64_t all = weight[0].constant();
    Value from;
    IntegerAttr take;
    if (first.getLimited()) { // number `all` is of no expert
      from = makeZero();
      take = b.getI64IntegerAttr(all++);
      parts = b.getI64IntegerAttr(1);
      room = findRoom(experts, take.getInt());
    }
    route = nn::RouteOp::create(b, loc, reshape(experts, {count}), from,
                                b.getI64IntegerAttr(all), take, room,
                                IntegerAttr(), nn::DimAttr());
  }

  void run() {
    // Ops are listed before any is created behind them.
    Block *block = products.front()->getBlock();
    for (Operation &op :
         llvm::make_range(products.front()->getIterator(), block->end()))
      ops.push_back(&op);
    for (Operation *op : ops) {
      auto product = dyn_cast<nn::ExpertLinearOp>(op);
      if (product && llvm::is_contained(products, product))
        moveProduct(product);
      else
        move(op);
    }
    for (Operation *op : ops)
      if (auto sum = dyn_cast<nn::ReduceOp>(op))
        combineSum(sum);
    eraseDead();
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (moved.contains(result))
          giveBack(result);
    eraseDead();
  }

private:
  /// Rows of all experts, of which each has a number of every sample at the
  /// most.
  nn::DimAttr findRoom(Value experts, int64_t all) {
    auto where = nn::throughReshapes(experts).getDefiningOp<nn::WhereOp>();
    auto limit = where ? nn::throughReshapes(where.getCondition())
                             .getDefiningOp<nn::LimitChoicesOp>()
                       : nn::LimitChoicesOp();
    auto most = limit ? limit.getMost() : std::nullopt;
    if (!most || where.getLhs() != nn::throughReshapes(limit.getExperts()) ||
        nn::splatOf(where.getRhs()) != double(all))
      return {};
    return nn::DimAttr::get(b.getContext(),
                            nn::getShape(limit.getExperts())[0] *
                                DimExpr(*most * all));
  }
  Value makeZero() {
    auto type = RankedTensorType::get({}, b.getI64Type());
    auto zero = DenseIntElementsAttr::get(type, int64_t(0));
    return nn::ConstantOp::create(b, loc, type, zero);
  }
  Value reshape(Value v, ArrayRef<DimExpr> shape) {
    if (nn::getShape(v) == Shape(shape))
      return v;
    Type element = getElementTypeOrSelf(v.getType());
    return nn::ReshapeOp::create(b, loc, nn::makeTensorType(shape, element), v);
  }
  static Shape flat(Value rows) { return flatten(rows, nn::getRank(rows) - 1); }
  bool hasRows(Value v) {
    Shape shape = nn::getShape(v);
    return !shape.empty() && shape[0] == count &&
           isa<FloatType>(getElementTypeOrSelf(v.getType()));
  }

  /// The value in the grouped order.
  Value get(Value rows) {
    auto known = grouped.find(rows);
    if (known != grouped.end())
      return known->second;
    Repeated tokens = matchRepeated(rows);
    Value x = tokens.rows ? reshape(tokens.rows, flatten(tokens.rows, 1))
                          : reshape(rows, flat(rows));
    Value there =
        nn::DispatchOp::create(b, loc, x, route.getOrder(), route.getPlace(),
                               tokens.each, parts, room);
    return grouped[rows] = reshape(there, nn::getShape(rows));
  }
  void set(Value rows, Value there) {
    grouped[rows] = there;
    moved.insert(rows);
  }

  void moveProduct(nn::ExpertLinearOp op) {
    b.setInsertionPoint(op);
    loc = op.getLoc();
    Value x = get(op.getInput());
    set(op.getResult(), nn::GroupedLinearOp::create(
                            b, loc, x, op.getWeight(), route.getOffsets(),
                            op.getBias(), op.getInOut(), parts, room));
  }

  /// An op behind a product, if it may.
  void move(Operation *op) {
    SmallVector<bool> rows;
    auto isMoved = [&](Value v) { return moved.contains(v); };
    if (llvm::none_of(op->getOperands(), isMoved) ||
        !nn::treatsRowsAlone(op, rows) || !hasRows(op->getResult(0)))
      return;
    for (auto [operand, has] : llvm::zip(op->getOperands(), rows))
      if (has ? !hasRows(operand) : isMoved(operand))
        return;
    b.setInsertionPoint(op);
    loc = op->getLoc();
    IRMapping mapping;
    for (auto [operand, has] : llvm::zip(op->getOperands(), rows))
      if (has)
        mapping.map(operand, get(operand));
    set(op->getResult(0), b.clone(*op, mapping)->getResult(0));
  }

  Value combine(Value rows, int64_t each) {
    Value there = reshape(grouped.lookup(rows), flat(rows));
    return nn::CombineOp::create(b, loc, there, route.getOrder(),
                                 route.getPlace(), each, parts, room);
  }

  /// reduce(reshape(rows)) over the rows of each token: [.., k, ..h]. Narrow
  /// rows that are widened for it stay narrow, and their sum is rounded once,
  /// as what a product gives is: else rows travel, not tokens.
  void combineSum(nn::ReduceOp sum) {
    Value rows = nn::throughReshapes(sum.getInput());
    if (Value narrow = nn::widened(rows); narrow && !moved.contains(rows))
      rows = nn::throughReshapes(narrow);
    if (sum.getKind() != nn::ReduceKind::sum || sum.getAxes().size() != 1 ||
        !moved.contains(rows))
      return;
    Shape shape = nn::getShape(sum.getInput());
    size_t axis = sum.getAxes()[0];
    DimExpr row = nn::getNumElements(ArrayRef(shape).drop_front(axis + 1));
    std::optional<int64_t> each = shape[axis].asConstant();
    if (row != flat(rows)[1] || !each || *each < 1)
      return;
    b.setInsertionPoint(sum);
    loc = sum.getLoc();
    Value combined =
        reshape(combine(rows, *each), nn::getShape(sum.getResult()));
    if (combined.getType() != sum.getType())
      combined = nn::CastOp::create(b, loc, sum.getType(), combined);
    sum.replaceAllUsesWith(combined);
  }

  /// Puts rows into the order of the tokens for uses that stayed.
  void giveBack(Value rows) {
    auto stayed = [&](OpOperand &use) {
      return llvm::none_of(use.getOwner()->getResults(),
                           [&](Value v) { return moved.contains(v); });
    };
    if (llvm::none_of(rows.getUses(), stayed))
      return;
    b.setInsertionPointAfter(rows.getDefiningOp());
    loc = rows.getLoc();
    Value back = reshape(combine(rows, 1), nn::getShape(rows));
    rows.replaceUsesWithIf(back, stayed);
  }

  void eraseDead() {
    for (Operation *&op : llvm::reverse(ops)) {
      if (!isOpTriviallyDead(op))
        continue;
      for (Value result : op->getResults()) {
        grouped.erase(result);
        moved.erase(result);
      }
      op->erase();
      op = nullptr;
    }
    llvm::erase(ops, nullptr);
  }

  OpBuilder b;
  Location loc = b.getUnknownLoc();
  SmallVector<nn::ExpertLinearOp> products;
  DimExpr count;
  nn::RouteOp route;
  /// Where rows may be of no expert.
  IntegerAttr parts;
  /// How many are of one at the most, if that is known.
  nn::DimAttr room;
  /// The block from the first product on, as it was.
  SmallVector<Operation *> ops;
  /// Rows in the order of tokens to the same rows in the grouped order.
  DenseMap<Value, Value> grouped;
  /// Those of them that a product or an op behind one gives.
  DenseSet<Value> moved;
};

struct GroupExperts : outline::impl::GroupExpertsBase<GroupExperts> {
  void runOnOperation() override {
    // By the numbers, and of how many experts they are.
    llvm::MapVector<std::pair<Value, int64_t>, SmallVector<nn::ExpertLinearOp>>
        groups;
    for (auto op : getOperation().getOps<nn::ExpertLinearOp>())
      groups[{nn::throughReshapes(op.getExperts()),
              nn::getShape(op.getWeight())[0].constant()}]
          .push_back(op);
    for (auto &[choice, products] : groups)
      Group(choice.first, products).run();
  }
};

} // namespace
