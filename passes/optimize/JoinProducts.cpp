//===- JoinProducts.cpp - Products of one input as one product --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Begins with sums: what goes back to an input that several products read is
// the sum of as many products. docs/joined-products.md.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNColumns.h"
#include "dialects/nn/NNInference.h"
#include "passes/optimize/JoinForward.h"
#include "passes/optimize/Passes.h"
#include "passes/optimize/Sums.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace dt::optimize {
#define GEN_PASS_DEF_JOINPRODUCTS
#include "passes/optimize/Passes.h.inc"

namespace {

/// Addends dy W of one sum, in the order of their parameters.
using Leaves = SmallVector<nn::LinearOp>;

/// What gives gradients of parameters from the gradients of the leaves, one op
/// a leaf: products with the input, or sums over rows of biases.
struct WeightGradients {
  SmallVector<Operation *> ops;
  SmallVector<Names> names;

  SmallVector<Value> results() const {
    SmallVector<Value> values;
    for (Operation *op : ops)
      values.push_back(op->getResult(0));
    return values;
  }
};

bool isLeaf(Value v, Type type) {
  auto product = v.getDefiningOp<nn::LinearOp>();
  return product && product.getInOut() && !product.getBias() &&
         product->hasOneUse() && v.getType() == type &&
         nn::elementOf(product.getInput()) == nn::elementOf(v) &&
         nn::getRank(product.getInput()) > 1;
}

bool isRowSum(Operation *op) {
  auto reduce = dyn_cast<nn::ReduceOp>(op);
  if (!reduce || reduce.getKind() != nn::ReduceKind::sum ||
      reduce.getKeepdims())
    return false;
  int64_t axes = nn::getRank(reduce.getInput()) - 1;
  return llvm::equal(reduce.getAxes(), llvm::seq<int64_t>(0, axes));
}

/// The op that comes last in their block.
Operation *lastOf(ArrayRef<Operation *> ops) {
  Operation *last = ops.front();
  for (Operation *op : ops)
    if (last->isBeforeInBlock(op))
      last = op;
  return last;
}

/// The size of the last dim, if it is a number.
std::optional<int64_t> widthOf(Value v) {
  return nn::getShape(v).back().asConstant();
}

/// One group of leaves of one sum.
class Join {
public:
  Join(JoinedParameters &parameters, nn::AddOp root, const Leaves &leaves)
      : parameters(parameters), root(root), leaves(leaves) {
    for (nn::LinearOp leaf : leaves) {
      grads.push_back(leaf.getInput());
      weights.push_back(leaf.getWeight());
    }
  }

  /// Says no, and changes no op, if they stay apart.
  bool run(ArrayRef<Value> otherAddends);

private:
  void findWeightGradients();
  /// The only use of each gradient that `is` right, if all have one.
  template <typename Is> SmallVector<Operation *> usesOf(Is is);
  bool pays();
  Value concatenate();
  void joinGradients(const WeightGradients &found, Value concat);

  JoinedParameters &parameters;
  nn::AddOp root;
  const Leaves &leaves;
  SmallVector<Value> grads, weights;
  SmallVector<Names> names;
  std::optional<WeightGradients> products, biases;
};

template <typename Is> SmallVector<Operation *> Join::usesOf(Is is) {
  SmallVector<Operation *> ops;
  for (Value grad : grads) {
    SmallVector<Operation *> right;
    for (Operation *user : grad.getUsers())
      if (is(user, grad))
        right.push_back(user);
    if (right.size() != 1)
      return {};
    ops.push_back(right.front());
  }
  return ops;
}

void Join::findWeightGradients() {
  auto take =
      [&](SmallVector<Operation *> ops) -> std::optional<WeightGradients> {
    if (ops.empty())
      return std::nullopt;
    WeightGradients found{ops, {}};
    Type element = nn::elementOf(ops.front()->getResult(0));
    for (Operation *op : ops)
      if (nn::elementOf(op->getResult(0)) != element)
        return std::nullopt;
    found.names = parameters.namesOfGradients(found.results());
    return found.names.empty() ? std::nullopt : std::optional(found);
  };
  products = take(usesOf([](Operation *op, Value grad) {
    auto dw = dyn_cast<nn::LinearDwOp>(op);
    return dw && !dw.getInOut() && dw.getGrad() == grad &&
           dw.getInput() != grad;
  }));
  if (products) {
    Value input = products->ops.front()->getOperand(0);
    bool same = llvm::all_of(products->ops, [&](Operation *op) {
      return op->getOperand(0) == input;
    });
    if (!same || products->names != names)
      products.reset();
  }
  biases = take(usesOf([](Operation *op, Value) { return isRowSum(op); }));
  if (biases && !parameters.join(biases->names))
    biases.reset();
}

/// Gradients that are not written to their columns are copied there.
bool Join::pays() {
  unsigned joined = 1 + (products ? 1 : 0) + (biases ? 1 : 0);
  int64_t copied = 0;
  for (Value grad : grads) {
    std::optional<int64_t> width = widthOf(grad);
    if (!width)
      return false;
    auto made = dyn_cast<OpResult>(nn::getMade(grad));
    bool written = made && nn::canWriteColumns(made) &&
                   unsigned(llvm::range_size(grad.getUses())) == joined;
    copied += written ? 0 : *width;
  }
  std::optional<int64_t> summed = widthOf(root.getResult());
  return summed && copied < int64_t(leaves.size() - 1) * *summed;
}

Value Join::concatenate() {
  Block *block = root->getBlock();
  Operation *last = nullptr;
  for (Value grad : grads)
    if (Operation *op = grad.getDefiningOp())
      if (!last || last->isBeforeInBlock(op))
        last = op;
  OpBuilder b(root);
  if (last)
    b.setInsertionPointAfter(last);
  else
    b.setInsertionPointToStart(block);
  return nn::ConcatOp::create(b, leaves.front()->getLoc(), grads,
                              nn::getRank(grads.front()) - 1);
}

void Join::joinGradients(const WeightGradients &found, Value concat) {
  OpBuilder b(found.ops.front()->getContext());
  b.setInsertionPointAfter(lastOf(found.ops));
  SmallVector<Value> parts = found.results();
  Operation *joined = b.clone(*found.ops.front());
  joined->setOperand(isa<nn::LinearDwOp>(joined) ? 1 : 0, concat);
  nn::Shape shape = nn::getShape(parts.front());
  shape[0] = nn::getShape(concat).back();
  joined->getResult(0).setType(
      nn::makeTensorType(shape, nn::elementOf(parts.front())));
  parameters.joinGradients(parts, joined->getResult(0));
  for (Operation *op : found.ops)
    op->erase();
}

bool Join::run(ArrayRef<Value> otherAddends) {
  names = parameters.namesOfValues(weights);
  if (names.empty() || !parameters.join(names))
    return false;
  findWeightGradients();
  if (!pays())
    return false;
  Value concat = concatenate();
  if (products)
    joinGradients(*products, concat);
  if (biases)
    joinGradients(*biases, concat);
  Value weight = parameters.joinValues(weights);
  OpBuilder b(root);
  Value sum =
      nn::LinearOp::create(b, leaves.front()->getLoc(), concat, weight, Value(),
                           /*in_out=*/true);
  for (Value v : otherAddends)
    sum = nn::AddOp::create(b, root.getLoc(), v, sum);
  root.getResult().replaceAllUsesWith(sum);
  return true;
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Leaves of parameters that may stand side by side, by their kind.
SmallVector<Leaves> groupLeaves(JoinedParameters &parameters,
                                ArrayRef<Value> addends, Type type) {
  llvm::MapVector<StringAttr, SmallVector<std::pair<unsigned, nn::LinearOp>>>
      kinds;
  for (Value v : addends) {
    if (!isLeaf(v, type))
      continue;
    auto leaf = v.getDefiningOp<nn::LinearOp>();
    SmallVector<Names> names = parameters.namesOfValues(leaf.getWeight());
    if (names.empty())
      continue;
    StringAttr kind = parameters.getKind(names.front().front());
    if (kind)
      kinds[kind].push_back({parameters.getOrder(names.front().front()), leaf});
  }
  SmallVector<Leaves> groups;
  for (auto &[kind, found] : kinds) {
    llvm::stable_sort(found, llvm::less_first());
    Leaves leaves;
    for (auto &[order, leaf] : found)
      leaves.push_back(leaf);
    if (leaves.size() > 1)
      groups.push_back(leaves);
  }
  return groups;
}

bool joinSum(JoinedParameters &parameters, nn::AddOp root) {
  SmallVector<Value> addends;
  collectAddends(root, addends);
  for (const Leaves &leaves :
       groupLeaves(parameters, addends, root.getType())) {
    SmallVector<Value> others;
    for (Value v : addends)
      if (!llvm::is_contained(leaves, v.getDefiningOp<nn::LinearOp>()))
        others.push_back(v);
    if (Join(parameters, root, leaves).run(others))
      return true;
  }
  return false;
}

struct JoinProducts : impl::JoinProductsBase<JoinProducts> {
  void runOnOperation() override {
    for (auto module : getOperation().getOps<dist::ModuleOp>()) {
      JoinedParameters parameters(module);
      for (auto function : module.getOps<func::FuncOp>())
        if (!function.isExternal())
          while (run(parameters, function.getBody().front())) {
          }
      for (auto function : module.getOps<func::FuncOp>())
        if (!function.isExternal())
          joinForward(parameters, function.getBody().front());
      parameters.eraseUnused();
    }
  }

  /// Whether it changed anything: a sum may have several groups.
  static bool run(JoinedParameters &parameters, Block &block) {
    SmallVector<nn::AddOp> roots;
    for (auto add : block.getOps<nn::AddOp>())
      if (!isInnerSum(add))
        roots.push_back(add);
    bool changed = false;
    for (nn::AddOp root : roots)
      changed |= joinSum(parameters, root);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
    return changed;
  }
};

} // namespace
} // namespace dt::optimize
