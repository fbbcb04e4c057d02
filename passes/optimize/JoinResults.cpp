//===- JoinResults.cpp - Columns that leave a function as the whole -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What leaves a function is made where the caller wants it: columns of a wider
// tensor are copied there. If all columns leave, the tensor does, and who gets
// it takes the columns. docs/joined-products.md.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNColumns.h"
#include "dialects/nn/NNNames.h"
#include "passes/optimize/Functions.h"
#include "passes/optimize/Passes.h"

using namespace mlir;

namespace dt::optimize {
#define GEN_PASS_DEF_JOINRESULTS
#include "passes/optimize/Passes.h.inc"

namespace {

//===----------------------------------------------------------------------===//
// Parts of a tensor
//===----------------------------------------------------------------------===//

/// Columns of a tensor, under other dims.
struct Part {
  nn::SliceOp slice;
  SmallVector<nn::ReshapeOp> views; ///< the last one first

  static std::optional<Part> get(Value value);
  Value whole() { return slice.getInput(); }
  /// The same columns of another tensor like it.
  Value of(Value other, OpBuilder &b);
  bool isLike(Part other);
};

std::optional<Part> Part::get(Value value) {
  Part part;
  while (auto view = value.getDefiningOp<nn::ReshapeOp>()) {
    part.views.push_back(view);
    value = view.getInput();
  }
  part.slice = value.getDefiningOp<nn::SliceOp>();
  if (!part.slice || !nn::isColumns(part.slice))
    return std::nullopt;
  return part;
}

Value Part::of(Value other, OpBuilder &b) {
  Value v = nn::SliceOp::create(b, slice.getLoc(), slice.getType(), other,
                                slice.getStarts(), slice.getSteps(),
                                slice.getFromEnd());
  for (nn::ReshapeOp view : llvm::reverse(views))
    v = nn::ReshapeOp::create(b, view.getLoc(), view.getType(), v);
  return v;
}

/// The same columns of a tensor of the same type.
bool Part::isLike(Part other) {
  return whole().getType() == other.whole().getType() &&
         slice.getType() == other.slice.getType() &&
         slice->getAttrDictionary() == other.slice->getAttrDictionary() &&
         llvm::equal(views, other.views,
                     [](auto x, auto y) { return x.getType() == y.getType(); });
}

/// Parts of one tensor among operands, with their numbers, in order.
struct PartGroup {
  Value whole;
  SmallVector<unsigned> places;
  SmallVector<Part> parts;

  bool coversWhole() const;
};

/// Parts are columns of the same rows, none twice.
bool PartGroup::coversWhole() const {
  std::optional<nn::DimExpr> pitch;
  nn::DimExpr sum(0);
  SmallVector<nn::DimExpr> offsets;
  for (Part part : parts) {
    nn::Columns columns = *nn::getReadColumns(part.slice);
    if (pitch && *pitch != columns.pitch)
      return false;
    pitch = columns.pitch;
    if (llvm::is_contained(offsets, columns.offset))
      continue;
    offsets.push_back(columns.offset);
    nn::Shape shape = nn::getShape(part.slice.getResult());
    sum = sum + nn::getNumElements(
                    ArrayRef<nn::DimExpr>(shape).drop_front(columns.axis));
  }
  return sum == *pitch;
}

/// Groups among those operands that are `eligible`.
SmallVector<PartGroup> findGroups(OperandRange operands,
                                  llvm::function_ref<bool(unsigned)> eligible) {
  llvm::MapVector<Value, PartGroup> groups;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    if (!eligible(i))
      continue;
    if (std::optional<Part> part = Part::get(operand)) {
      PartGroup &group = groups[part->whole()];
      group.whole = part->whole();
      group.places.push_back(i);
      group.parts.push_back(*part);
    }
  }
  return llvm::to_vector(llvm::make_second_range(groups));
}

//===----------------------------------------------------------------------===//
// Functions that are called
//===----------------------------------------------------------------------===//

/// Results of a group, if they all leave and have the same attributes.
bool canLeaveAsWhole(func::FuncOp function, const PartGroup &group) {
  DictionaryAttr first = function.getResultAttrDict(group.places.front());
  return group.coversWhole() && llvm::all_of(group.places, [&](unsigned i) {
           return function.getResultAttrDict(i) == first;
         });
}

bool joinResultsOf(func::FuncOp function) {
  auto isNoGradient = [&](unsigned i) {
    return !function.getResultAttr(i, nn::kParamGradAttr);
  };
  Operation *end = function.front().getTerminator();
  for (const PartGroup &group : findGroups(end->getOperands(), isNoGradient)) {
    if (!canLeaveAsWhole(function, group) || getCalls(function).empty())
      continue;
    joinResults(function, group.places, group.whole,
                [&](ValueRange old, Value joined) {
                  OpBuilder b(joined.getContext());
                  b.setInsertionPointAfterValue(joined);
                  for (auto [v, part] : llvm::zip(old, group.parts))
                    v.replaceAllUsesWith(Part(part).of(joined, b));
                });
    return true;
  }
  return false;
}

/// The same parts among the call's operands; nothing if there are others.
std::optional<Value> findWhole(func::CallOp call, const PartGroup &like) {
  Value whole;
  for (auto [i, part] : llvm::zip(like.places, like.parts)) {
    std::optional<Part> own = Part::get(call.getOperand(i));
    if (!own || !own->isLike(part) || (whole && own->whole() != whole))
      return std::nullopt;
    whole = own->whole();
  }
  return whole;
}

/// One argument in place of those of the parts, at the first of them.
void joinArguments(func::FuncOp function, const PartGroup &group,
                   DictionaryAttr attributes) {
  unsigned place = group.places.front();
  Type type = group.whole.getType();
  (void)function.insertArgument(place, type, attributes, group.whole.getLoc());
  OpBuilder b = OpBuilder::atBlockBegin(&function.front());
  llvm::BitVector gone(function.getNumArguments());
  for (auto [i, part] : llvm::zip(group.places, group.parts)) {
    function.getArgument(i + 1).replaceAllUsesWith(
        Part(part).of(function.getArgument(place), b));
    gone.set(i + 1);
  }
  (void)function.eraseArguments(gone);
}

bool joinOperandsOf(func::FuncOp function, const PartGroup &group,
                    ArrayRef<func::CallOp> calls) {
  SmallVector<Value> wholes;
  for (func::CallOp call : calls) {
    std::optional<Value> whole = findWhole(call, group);
    if (!whole)
      return false;
    wholes.push_back(*whole);
  }
  joinArguments(function, group, DictionaryAttr::get(function.getContext()));
  llvm::BitVector gone(function.getNumArguments() + group.places.size());
  for (unsigned i : group.places)
    gone.set(i + 1);
  for (auto [call, whole] : llvm::zip(calls, wholes)) {
    Operation *op = call;
    op->insertOperands(group.places.front(), whole);
    op->eraseOperands(gone);
  }
  return true;
}

/// Parts of what is there anyway, or of all that there is.
bool joinOperandsOf(func::FuncOp function) {
  SmallVector<func::CallOp> calls = getCalls(function);
  if (calls.empty())
    return false;
  for (const PartGroup &group :
       findGroups(calls.front().getOperands(), [](unsigned) { return true; }))
    if ((group.coversWhole() || isa<BlockArgument>(group.whole)) &&
        joinOperandsOf(function, group, calls))
      return true;
  return false;
}

//===----------------------------------------------------------------------===//
// Functions of a module
//===----------------------------------------------------------------------===//

/// The residuals of a module, and who takes them.
class Residuals {
public:
  explicit Residuals(const dist::Functions &functions)
      : forward(functions.forward), takers(functions.getBackwards()) {}
  /// Whether some have become one.
  bool join();

private:
  /// The group's places are numbers of residuals.
  void replaceIn(func::FuncOp taker, const PartGroup &group);

  func::FuncOp forward;
  SmallVector<func::FuncOp, 2> takers;
};

/// By argument, which residual of .fwd it is.
SmallVector<std::optional<unsigned>> numberArguments(func::FuncOp taker) {
  SmallVector<std::optional<unsigned>> numbers;
  unsigned next = 0;
  for (unsigned i = 0; i < taker.getNumArguments(); ++i) {
    numbers.push_back(std::nullopt);
    if (!taker.getArgAttr(i, nn::kResidualAttr))
      continue;
    auto number = taker.getArgAttrOfType<IntegerAttr>(i, nn::kResidualAttr);
    numbers.back() = number ? unsigned(number.getInt()) : next++;
  }
  return numbers;
}

/// The number of a residual once the `joined` ones are one: theirs is that of
/// the first.
unsigned renumber(unsigned number, ArrayRef<unsigned> joined) {
  if (llvm::is_contained(joined, number))
    return joined.front();
  return number - llvm::count_if(joined.drop_front(), [&](unsigned other) {
           return other < number;
         });
}

void Residuals::replaceIn(func::FuncOp taker, const PartGroup &group) {
  Builder b(taker.getContext());
  PartGroup taken{group.whole, {}, {}};
  SmallVector<std::optional<unsigned>> numbers = numberArguments(taker);
  for (unsigned i = 0; i < numbers.size(); ++i) {
    if (!numbers[i])
      continue;
    auto found = llvm::find(group.places, *numbers[i]);
    if (found != group.places.end()) {
      taken.places.push_back(i);
      taken.parts.push_back(group.parts[found - group.places.begin()]);
    }
    if (taker.getArgAttrOfType<IntegerAttr>(i, nn::kResidualAttr))
      taker.setArgAttr(
          i, nn::kResidualAttr,
          b.getI64IntegerAttr(renumber(*numbers[i], group.places)));
  }
  if (!taken.places.empty())
    joinArguments(taker, taken, taker.getArgAttrDict(taken.places.front()));
}

bool Residuals::join() {
  auto isResidual = [&](unsigned i) {
    return forward.getResultAttr(i, nn::kResidualAttr) != nullptr;
  };
  Operation *end = forward.front().getTerminator();
  for (PartGroup &group : findGroups(end->getOperands(), isResidual)) {
    if (!canLeaveAsWhole(forward, group))
      continue;
    SmallVector<unsigned> numbers;
    for (unsigned i : group.places)
      numbers.push_back(llvm::count_if(llvm::seq(0u, i), isResidual));
    joinResults(forward, group.places, group.whole, [](ValueRange, Value) {});
    group.places = numbers;
    for (func::FuncOp taker : takers)
      replaceIn(taker, group);
    return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

bool joinOnce(func::FuncOp function) {
  if (function.isPrivate())
    return joinResultsOf(function) || joinOperandsOf(function);
  dist::ForwardOp link = dist::getLink(function);
  return link && link.getForward() == function.getName() &&
         Residuals(dist::getFunctions<func::FuncOp>(link)).join();
}

void eraseUnused(func::FuncOp function) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (isa<nn::SliceOp, nn::ReshapeOp>(op) && op.use_empty())
      op.erase();
}

struct JoinResults : impl::JoinResultsBase<JoinResults> {
  void runOnOperation() override {
    for (auto module : getOperation().getOps<dist::ModuleOp>()) {
      SmallVector<func::FuncOp> functions;
      for (auto function : module.getOps<func::FuncOp>())
        if (!function.isExternal())
          functions.push_back(function);
      // A function's parts become those of its callers.
      bool changed = true;
      while (changed) {
        changed = false;
        for (func::FuncOp function : functions)
          while (joinOnce(function))
            changed = true;
        for (func::FuncOp function : functions)
          eraseUnused(function);
      }
    }
  }
};

} // namespace
} // namespace dt::optimize
