//===- JoinForward.cpp - Products of one input as a batch -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Weights of equal size that stand side by side are a batch of matrices, whose
// results are matrices by themselves. docs/joined-products.md.
//
//===----------------------------------------------------------------------===//

#include "passes/optimize/JoinForward.h"

#include "dialects/nn/NNInference.h"

using namespace mlir;
using namespace dt;
using namespace dt::optimize;

namespace {

using Products = SmallVector<nn::LinearOp>;

bool canJoin(nn::LinearOp op) {
  auto isInStrips = [](Operation *other) {
    return other && other->hasAttr(dist::kStripsAttr);
  };
  // Products of strips that are gathered, or to be scattered, go beside those.
  return !op.getInOut() && !op.getBias() &&
         !isInStrips(op.getInput().getDefiningOp()) &&
         llvm::none_of(op->getUsers(), isInStrips) &&
         nn::elementOf(op.getInput()) == nn::elementOf(op.getResult());
}

/// Whether the result, or a view of it, leaves the function: it is made where
/// the caller wants it, a part of a batch would be copied there.
bool isReturned(Value v) {
  return llvm::any_of(v.getUsers(), [](Operation *user) {
    auto reshape = dyn_cast<nn::ReshapeOp>(user);
    return isa<func::ReturnOp>(user) ||
           (reshape && isReturned(reshape.getResult()));
  });
}

/// What is copied must be less than what the input is not read again.
bool pays(ArrayRef<nn::LinearOp> products) {
  nn::LinearOp first = products.front();
  std::optional<int64_t>
      in = nn::getShape(first.getInput()).back().asConstant(),
      out = nn::getShape(first.getResult()).back().asConstant();
  if (products.size() < 2 || !in || !out)
    return false;
  int64_t copied = llvm::count_if(
      products, [](nn::LinearOp op) { return isReturned(op.getResult()); });
  return 2 * copied * *out < int64_t(products.size() - 1) * *in;
}

/// Part i of a batch of results, as the product's.
Value makePart(OpBuilder &b, nn::LinearOp op, Value batch, int64_t i) {
  nn::Shape shape = nn::getShape(batch);
  shape[0] = 1;
  Value part = nn::SliceOp::create(
      b, op.getLoc(), nn::makeTensorType(shape, nn::elementOf(batch)), batch,
      ArrayRef<int64_t>{i, 0, 0}, ArrayRef<int64_t>{1, 1, 1});
  return nn::ReshapeOp::create(b, op.getLoc(), op.getType(), part);
}

bool join(JoinedParameters &parameters, ArrayRef<nn::LinearOp> products) {
  SmallVector<Value> weights;
  for (nn::LinearOp op : products)
    weights.push_back(op.getWeight());
  SmallVector<Names> names = parameters.namesOfValues(weights);
  if (names.empty() || !parameters.join(names))
    return false;
  nn::LinearOp first = products.front();
  for (nn::LinearOp op : products)
    if (op->isBeforeInBlock(first))
      first = op;
  Value weight = parameters.joinValues(weights);
  OpBuilder b(first);
  Location loc = first.getLoc();
  Type element = nn::elementOf(first.getResult());
  nn::Shape x = nn::getShape(first.getInput()), w = nn::getShape(weights[0]);
  nn::Shape rows{1, nn::getNumElements(ArrayRef<nn::DimExpr>(x).drop_back()),
                 x.back()},
      matrices{int64_t(products.size()), w[0], w[1]};
  Value input = nn::ReshapeOp::create(b, loc, nn::makeTensorType(rows, element),
                                      first.getInput());
  weight = nn::ReshapeOp::create(
      b, loc, nn::makeTensorType(matrices, nn::elementOf(weight)), weight);
  Value batch = nn::MatmulOp::create(b, loc, input, weight, /*trans_a=*/false,
                                     /*trans_b=*/true);
  for (auto [i, op] : llvm::enumerate(products))
    op->getResult(0).replaceAllUsesWith(makePart(b, op, batch, i));
  for (nn::LinearOp op : products)
    op->erase();
  return true;
}

/// Products with weights that may stand side by side and are of one size.
SmallVector<Products> groupProducts(JoinedParameters &parameters, Value input) {
  llvm::MapVector<std::pair<Attribute, Type>,
                  SmallVector<std::pair<unsigned, nn::LinearOp>>>
      kinds;
  for (OpOperand &use : input.getUses()) {
    auto op = dyn_cast<nn::LinearOp>(use.getOwner());
    if (!op || use.getOperandNumber() != 0 || !canJoin(op))
      continue;
    SmallVector<Names> names = parameters.namesOfValues(op.getWeight());
    if (names.empty())
      continue;
    StringAttr name = names.front().front();
    if (StringAttr kind = parameters.getKind(name))
      kinds[{kind, op.getWeight().getType()}].push_back(
          {parameters.getOrder(name), op});
  }
  SmallVector<Products> groups;
  for (auto &[kind, found] : kinds) {
    llvm::stable_sort(found, llvm::less_first());
    Products products;
    for (auto &[order, op] : found)
      products.push_back(op);
    groups.push_back(products);
  }
  return groups;
}

} // namespace

void dt::optimize::joinForward(JoinedParameters &parameters, Block &block) {
  llvm::SetVector<Value> inputs;
  for (auto op : block.getOps<nn::LinearOp>())
    inputs.insert(op.getInput());
  for (Value input : inputs)
    for (const Products &all : groupProducts(parameters, input)) {
      Products inside;
      for (nn::LinearOp op : all)
        if (!isReturned(op.getResult()))
          inside.push_back(op);
      if (!(pays(all) && join(parameters, all)) && pays(inside))
        join(parameters, inside);
    }
}
