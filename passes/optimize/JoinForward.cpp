//===- JoinForward.cpp - Products of one input as one product ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Weights that stand side by side are one matrix, and what products with them
// give is columns of what one product gives. docs/joined-products.md.
//
//===----------------------------------------------------------------------===//

#include "passes/optimize/JoinForward.h"

#include "dialects/nn/NNColumns.h"
#include "dialects/nn/NNInference.h"

using namespace mlir;
using namespace dt;
using namespace dt::optimize;

namespace {

using Products = SmallVector<nn::LinearOp>;

bool canJoin(nn::LinearOp op) {
  auto isInStrips = [](Operation *other) {
    auto collective = dyn_cast_or_null<dist::CollectiveOpInterface>(other);
    return collective && collective.getStrips();
  };
  // Products of strips that are gathered, or to be scattered, go beside those.
  return !op.getInOut() && !isInStrips(op.getInput().getDefiningOp()) &&
         llvm::none_of(op->getUsers(), isInStrips) &&
         nn::getShape(op.getResult()).back().asConstant() &&
         nn::getRank(op.getInput()) > 1 && !op.getResult().use_empty() &&
         nn::elementOf(op.getInput()) == nn::elementOf(op.getResult());
}

/// What one product would give, its columns in place of what the products give:
/// so who would read columns, and who would have to copy them, is known before
/// anything is joined.
class Trial {
public:
  explicit Trial(ArrayRef<nn::LinearOp> products);
  /// What is copied is no more than what the input is not read again.
  bool pays();
  void undo();
  void finish(Value joined);
  Operation *place() { return whole; }

private:
  Products products;
  UnrealizedConversionCastOp whole;
  SmallVector<nn::SliceOp> slices;
};

Trial::Trial(ArrayRef<nn::LinearOp> list) : products(list) {
  nn::LinearOp first = products.front();
  for (nn::LinearOp op : products)
    first = op->isBeforeInBlock(first) ? op : first;
  OpBuilder b(first);
  nn::Shape shape = nn::getShape(first.getResult());
  shape.back() = 0;
  SmallVector<nn::DimExpr> starts;
  for (nn::LinearOp op : products) {
    starts.push_back(shape.back());
    shape.back() = shape.back() + nn::getShape(op.getResult()).back();
  }
  Type type = nn::makeTensorType(shape, nn::elementOf(first.getResult()));
  whole =
      UnrealizedConversionCastOp::create(b, first.getLoc(), type, ValueRange());
  SmallVector<int64_t> from(shape.size(), 0), steps(shape.size(), 1);
  for (auto [op, start] : llvm::zip(products, starts)) {
    from.back() = *start.asConstant();
    slices.push_back(nn::SliceOp::create(b, op.getLoc(), op.getType(),
                                         whole.getResult(0), from, steps));
    op->getResult(0).replaceAllUsesWith(slices.back().getResult());
  }
}

bool isReturn(OpOperand &use) { return isa<func::ReturnOp>(use.getOwner()); }

/// Whether the value, or a view of it, leaves the function.
bool leaves(Value v) {
  return llvm::any_of(v.getUses(), [](OpOperand &use) {
    auto reshape = dyn_cast<nn::ReshapeOp>(use.getOwner());
    return isReturn(use) || (reshape && leaves(reshape.getResult()));
  });
}

bool Trial::pays() {
  // If all leave, the whole does: nn-join-results.
  bool all = llvm::all_of(
      slices, [](nn::SliceOp slice) { return leaves(slice.getResult()); });
  int64_t copied = 0;
  for (nn::SliceOp slice : slices)
    if (!nn::isReadInPlace(
            slice, [&](OpOperand &use) { return all && isReturn(use); }))
      copied += *nn::getShape(slice.getResult()).back().asConstant();
  nn::LinearOp first = products.front();
  std::optional<int64_t> in =
      nn::getShape(first.getInput()).back().asConstant();
  return in && 2 * copied <= int64_t(products.size() - 1) * *in;
}

void Trial::undo() {
  for (auto [op, slice] : llvm::zip(products, slices)) {
    slice.getResult().replaceAllUsesWith(op->getResult(0));
    slice.erase();
  }
  whole.erase();
}

void Trial::finish(Value joined) {
  whole.getResult(0).replaceAllUsesWith(joined);
  whole.erase();
  for (nn::LinearOp op : products)
    op.erase();
}

bool join(JoinedParameters &parameters, ArrayRef<nn::LinearOp> products) {
  if (products.size() < 2)
    return false;
  SmallVector<Value> weights, biases;
  for (nn::LinearOp op : products) {
    weights.push_back(op.getWeight());
    if (op.getBias())
      biases.push_back(op.getBias());
  }
  SmallVector<Names> names = parameters.namesOfValues(weights);
  if (names.empty())
    return false;
  if (!biases.empty()) {
    SmallVector<Names> more = parameters.namesOfValues(biases);
    if (more.empty())
      return false;
    llvm::append_range(names, more);
  }
  Trial trial(products);
  if (!trial.pays() || !parameters.join(names)) {
    trial.undo();
    return false;
  }
  OpBuilder b(trial.place());
  nn::LinearOp first = products.front();
  Value bias = biases.empty() ? Value() : parameters.joinValues(biases);
  trial.finish(nn::LinearOp::create(b, first.getLoc(), first.getInput(),
                                    parameters.joinValues(weights), bias,
                                    /*in_out=*/false));
  return true;
}

/// Products with weights that may stand side by side, in their order.
SmallVector<Products> groupProducts(JoinedParameters &parameters, Value input) {
  llvm::MapVector<std::tuple<Attribute, unsigned, Type>,
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
      kinds[{kind, op.getBias() ? 1u : 0u, nn::elementOf(op.getResult())}]
          .push_back({parameters.getOrder(name), op});
  }
  SmallVector<Products> groups;
  for (auto &[kind, found] : kinds) {
    llvm::stable_sort(found, llvm::less_first());
    groups.push_back(llvm::to_vector(llvm::make_second_range(found)));
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
        if (!leaves(op.getResult()))
          inside.push_back(op);
      if (!join(parameters, all))
        join(parameters, inside);
    }
}
