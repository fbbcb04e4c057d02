//===- Rotary.cpp - Recover rotary embedding --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/Rotary.h"
#include "passes/import/Match.h"

using namespace mlir;
using namespace dt;
using namespace dt::import;

namespace {

/// The numbers of a folded table that is not a splat, or null.
DenseElementsAttr getTable(Value v) {
  auto constant = v.getDefiningOp<nn::ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                        : DenseElementsAttr();
  return dense && !dense.isSplat() && isa<FloatType>(dense.getElementType()) &&
                 dense.getType().getRank() > 0
             ? dense
             : DenseElementsAttr();
}

bool halvesEqual(DenseElementsAttr table) {
  int64_t last = table.getType().getShape().back();
  if (last % 2)
    return false;
  SmallVector<APFloat> numbers(table.getValues<APFloat>());
  for (size_t row = 0; row < numbers.size(); row += last)
    for (int64_t i = 0; i < last / 2; ++i)
      if (!numbers[row + i].bitwiseIsEqual(numbers[row + last / 2 + i]))
        return false;
  return true;
}

/// Whether the first and second half of the last axis hold the same numbers.
bool halvesEqual(Value v, int depth = 0) {
  Operation *op = v.getDefiningOp();
  if (!op || depth > 8)
    return false;
  if (DenseElementsAttr table = getTable(v))
    return halvesEqual(table);
  int64_t last = nn::getRank(v) - 1;
  if (auto concat = dyn_cast<nn::ConcatOp>(op))
    return concat.getInputs().size() == 2 &&
           static_cast<int64_t>(concat.getAxis()) == last &&
           concat.getInputs()[0] == concat.getInputs()[1];
  if (isa<nn::ReshapeOp, nn::BroadcastOp>(op))
    return nn::getShape(op->getOperand(0)).size() > 0 &&
           nn::getShape(op->getOperand(0)).back() == nn::getShape(v).back() &&
           halvesEqual(op->getOperand(0), depth + 1);
  if (auto transpose = dyn_cast<nn::TransposeOp>(op))
    return transpose.getPermutation().back() == last &&
           halvesEqual(transpose.getInput(), depth + 1);
  if (isa<nn::ScalarOpInterface>(op))
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return getSplat(operand) || halvesEqual(operand, depth + 1);
    });
  return false;
}

/// Elements [begin, begin + count) of the last axis, step 1: the input, or
/// null.
Value matchLastSlice(Value v, int64_t begin, int64_t count) {
  auto slice = v.getDefiningOp<nn::SliceOp>();
  if (!slice ||
      llvm::any_of(slice.getSteps(), [](int64_t s) { return s != 1; }) ||
      llvm::is_contained(slice.getFromEnd(), true))
    return {};
  nn::Shape in = nn::getShape(slice.getInput()), out = nn::getShape(v);
  for (size_t i = 0; i + 1 < in.size(); ++i)
    if (in[i] != out[i])
      return {};
  return slice.getStarts().back() == begin && out.back() == nn::DimExpr(count)
             ? Value(slice.getInput())
             : Value();
}

/// x when `v` = concat(-x[half:], x[:half]) along the last axis.
Value matchRotateHalf(Value v) {
  auto concat = v.getDefiningOp<nn::ConcatOp>();
  int64_t last = nn::getRank(v) - 1;
  if (!concat || concat.getInputs().size() != 2 ||
      static_cast<int64_t>(concat.getAxis()) != last)
    return {};
  std::optional<int64_t> d = nn::getShape(v).back().asConstant();
  auto negated = concat.getInputs()[0].getDefiningOp<nn::NegOp>();
  if (!d || *d % 2 || !negated)
    return {};
  Value high = matchLastSlice(negated.getInput(), *d / 2, *d / 2);
  Value low = matchLastSlice(concat.getInputs()[1], 0, *d / 2);
  return high && high == low && high.getType() == v.getType() ? high : Value();
}

/// Whether `factor` broadcasts to x along the heads only and repeats its
/// halves.
bool areAngles(Value factor, const nn::Shape &x, size_t tokens) {
  nn::Shape s = nn::getShape(factor);
  while (s.size() < 4)
    s.insert(s.begin(), nn::DimExpr(1));
  return s[3 - tokens] == nn::DimExpr(1) && s[tokens] == x[tokens] &&
         s[3] == x[3] && (s[0] == nn::DimExpr(1) || s[0] == x[0]) &&
         halvesEqual(factor);
}

/// Angles [t, d/2] or [b, t, d/2] from a factor that passed areAngles.
Value takeAngles(PatternRewriter &rewriter, Value factor, const nn::Shape &x,
                 size_t tokens) {
  nn::Shape s = nn::getShape(factor);
  nn::Shape flat = {x[tokens], x[3]};
  if (s.size() == 4 && s[0] != nn::DimExpr(1))
    flat.insert(flat.begin(), s[0]);
  Type element = getElementTypeOrSelf(factor);
  if (DenseElementsAttr table = getTable(factor)) {
    int64_t last = x[3].constant();
    SmallVector<APFloat> numbers(table.getValues<APFloat>()), kept;
    for (size_t row = 0; row < numbers.size(); row += last)
      kept.append(numbers.begin() + row, numbers.begin() + row + last / 2);
    flat.back() = nn::DimExpr(last / 2);
    return nn::ConstantOp::create(
        rewriter, factor.getLoc(),
        DenseElementsAttr::get(nn::makeTensorType(flat, element), kept));
  }
  Value all = nn::ReshapeOp::create(rewriter, factor.getLoc(),
                                    nn::makeTensorType(flat, element), factor);
  SmallVector<int64_t> starts(flat.size(), 0), steps(flat.size(), 1);
  flat.back() = nn::DimExpr(flat.back().constant() / 2);
  return nn::SliceOp::create(rewriter, factor.getLoc(),
                             nn::makeTensorType(flat, element), all, starts,
                             steps, ArrayRef<bool>());
}

LogicalResult raiseRotaryHalf(nn::AddOp add, PatternRewriter &rewriter) {
  // One addend is rotate_half(x) * sin, the other x * cos.
  auto isTurned = [](Value v) {
    return matchEither<nn::MulOp>(
               v, [](Value f) { return static_cast<bool>(matchRotateHalf(f)); })
        .has_value();
  };
  auto sides = matchEither<nn::AddOp>(add, isTurned);
  if (!sides || add.getType().getRank() != 4)
    return failure();
  auto turned = *matchEither<nn::MulOp>(sides->first, [](Value f) {
    return static_cast<bool>(matchRotateHalf(f));
  });
  Value x = matchRotateHalf(turned.first);
  auto plain =
      matchEither<nn::MulOp>(sides->second, [&](Value f) { return f == x; });
  if (!plain || x.getType() != add.getType())
    return failure();
  nn::Shape shape = nn::getShape(x);
  // [b, h, t, d] as exporters have it, or [b, t, h, d].
  for (size_t tokens : {2, 1}) {
    if (!areAngles(plain->second, shape, tokens) ||
        !areAngles(turned.second, shape, tokens) ||
        plain->second.getType() != turned.second.getType())
      continue;
    Value cos = takeAngles(rewriter, plain->second, shape, tokens);
    Value sin = takeAngles(rewriter, turned.second, shape, tokens);
    int64_t swap[] = {0, 2, 1, 3};
    if (tokens == 2)
      x = nn::TransposeOp::create(rewriter, add.getLoc(), x, swap);
    Value out = nn::RotaryOp::create(rewriter, add.getLoc(), x, cos, sin,
                                     nn::RotaryStyle::half, false);
    if (tokens == 2)
      out = nn::TransposeOp::create(rewriter, add.getLoc(), out, swap);
    rewriter.replaceOp(add, out);
    return success();
  }
  return failure();
}
} // namespace

void import::populateRotaryPatterns(RewritePatternSet &patterns) {
  patterns.add(raiseRotaryHalf);
}
