//===- NNShardingMovement.cpp - How data movement may be cut ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNRuleBuilder.h"

using namespace mlir;
using namespace dt::nn;
using Letters = RuleBuilder::Letters;

/// Made from nothing: any part can be made alone, knowing its place.
static ShardingRule creationRule(Operation *op) {
  RuleBuilder b(op);
  b.result(0, b.letters(getShape(op->getResult(0)), FactorKind::blocked));
  return b.finish();
}
ShardingRule ConstantOp::getShardingRule() { return creationRule(*this); }
ShardingRule GenerateOp::getShardingRule() { return creationRule(*this); }

//===----------------------------------------------------------------------===//
// Reshape
//===----------------------------------------------------------------------===//

/// Splits both sides of a group into the same factors, from the minor end.
/// False where sizes do not divide (2 * 3 against 3 * 2).
static bool alignGroup(RuleBuilder &b, ArrayRef<DimExpr> from,
                       ArrayRef<DimExpr> to, SmallVector<Letters> &fromLists,
                       SmallVector<Letters> &toLists) {
  fromLists.assign(from.size(), {});
  toLists.assign(to.size(), {});
  size_t i = from.size(), j = to.size();
  DimExpr x = 1, y = 1; // what is left of dims i and j
  while (true) {
    while (x == DimExpr(1) && i > 0)
      x = from[--i];
    while (y == DimExpr(1) && j > 0)
      y = to[--j];
    if (x == DimExpr(1) || y == DimExpr(1))
      return x == y;
    DimExpr atom = 1;
    if (auto q = x.exactDiv(y)) {
      atom = y;
      x = *q;
      y = 1;
    } else if (auto r = y.exactDiv(x)) {
      atom = x;
      y = *r;
      x = 1;
    } else {
      return false;
    }
    unsigned f = b.factor(atom);
    fromLists[i].insert(fromLists[i].begin(), f);
    toLists[j].insert(toLists[j].begin(), f);
  }
}

ShardingRule ReshapeOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape from = getShape(getInput()), to = getShape(getResult());
  b.linear({0});
  SmallVector<ReassociationGroup> groups{
      {llvm::to_vector<2>(llvm::seq<int64_t>(0, from.size())),
       llvm::to_vector<2>(llvm::seq<int64_t>(0, to.size()))}};
  if (auto fine = getReassociation(from, to))
    groups = *fine;
  for (auto &[in, out] : groups) {
    SmallVector<DimExpr> inDims, outDims;
    for (int64_t d : in)
      inDims.push_back(from[d]);
    for (int64_t d : out)
      outDims.push_back(to[d]);
    SmallVector<Letters> inLists, outLists;
    size_t before = b.rule.factors.size();
    if (!alignGroup(b, inDims, outDims, inLists, outLists)) {
      // Opaque: nothing of this group can be cut.
      b.rule.factors.resize(before);
      for (auto [i, d] : llvm::enumerate(inDims))
        inLists[i] = {b.factor(d, FactorKind::replicate)};
      for (auto [i, d] : llvm::enumerate(outDims))
        outLists[i] = {b.factor(d, FactorKind::replicate)};
    }
    for (auto [i, d] : llvm::enumerate(in))
      b.operandDim(0, d, inLists[i]);
    for (auto [i, d] : llvm::enumerate(out))
      b.resultDim(0, d, outLists[i]);
  }
  return b.finish();
}

ShardingRule BroadcastOp::getShardingRule() {
  RuleBuilder b(*this);
  Letters list = b.letters(getShape(getResult()));
  b.operand(0, list);
  b.result(0, list);
  b.linear({0});
  return b.finish();
}

ShardingRule TransposeOp::getShardingRule() {
  RuleBuilder b(*this);
  Letters list = b.letters(getShape(getInput())), moved;
  for (int64_t axis : getPermutation())
    moved.push_back(list[axis]);
  b.operand(0, list);
  b.result(0, moved);
  b.linear({0});
  return b.finish();
}

//===----------------------------------------------------------------------===//
// Slices and their inverses
//===----------------------------------------------------------------------===//

/// One axis of a slice between a whole and its part: [parts, part] against
/// [part] where the part is one of equal ones (fused projections), all of it
/// where it is the whole, uncut otherwise.
static void partAxis(RuleBuilder &b, const DimExpr &whole, const DimExpr &part,
                     std::optional<int64_t> start, bool contiguous,
                     Letters &wholeList, Letters &partList) {
  if (whole == part && contiguous && start == 0) {
    wholeList = partList = {b.factor(whole)};
    return;
  }
  auto parts = whole.exactDiv(part);
  auto size = part.asConstant();
  if (contiguous && parts && size && *size && start && *start % *size == 0) {
    unsigned p = b.factor(*parts, FactorKind::replicate), e = b.factor(part);
    wholeList = {p, e};
    partList = {e};
    return;
  }
  wholeList = {b.factor(whole, FactorKind::replicate)};
  partList = {b.factor(part, FactorKind::replicate)};
}

ShardingRule SliceOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape whole = getShape(getInput()), part = getShape(getResult());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::optional<int64_t> start = getStarts()[i];
    if (!getFromEnd().empty() && getFromEnd()[i])
      start = (whole[i] - DimExpr(*start)).asConstant();
    Letters in, out;
    partAxis(b, whole[i], part[i], start, getSteps()[i] == 1, in, out);
    b.operandDim(0, i, in);
    b.resultDim(0, i, out);
  }
  b.linear({0});
  return b.finish();
}

ShardingRule PadOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape part = getShape(getInput()), whole = getShape(getResult());
  for (size_t i = 0; i < whole.size(); ++i) {
    bool turned = !getReverse().empty() && getReverse()[i];
    Letters in, out;
    partAxis(b, whole[i], part[i], getLow()[i],
             getInterior()[i] == 0 && !turned, out, in);
    b.operandDim(0, i, in);
    b.resultDim(0, i, out);
  }
  if (getValue().isZero())
    b.linear({0});
  return b.finish();
}

ShardingRule ConcatOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape result = getShape(getResult());
  int64_t axis = getAxis();
  axis += axis < 0 ? static_cast<int64_t>(result.size()) : 0;
  Letters list = b.letters(result);
  DimExpr first = getShape(getInputs()[0])[axis];
  bool equal = llvm::all_of(
      getInputs(), [&](Value v) { return getShape(v)[axis] == first; });
  unsigned whole = list[axis], piece = 0;
  if (equal) {
    // [parts, piece]: pieces may be cut, all alike.
    b.rule.factors[whole] = {DimExpr(getInputs().size()),
                             FactorKind::replicate};
    piece = b.factor(first);
  } else {
    b.rule.factors[whole].kind = FactorKind::replicate;
  }
  b.result(0, list);
  b.resultDim(0, axis, equal ? Letters{whole, piece} : Letters{whole});
  SmallVector<unsigned> all;
  for (auto [i, v] : llvm::enumerate(getInputs())) {
    b.operand(i, list);
    unsigned own =
        equal ? piece : b.factor(getShape(v)[axis], FactorKind::replicate);
    b.operandDim(i, axis, {own});
    all.push_back(i);
  }
  b.linear(all);
  return b.finish();
}

//===----------------------------------------------------------------------===//
// Indexing
//===----------------------------------------------------------------------===//

/// gather(table, indices) -> taken, or its gradient (taken, indices) -> table.
/// The axis that is looked up may be cut: a block answers for its own indices,
/// and the sum over blocks is the lookup.
static ShardingRule lookupRule(Operation *op, int64_t axis, bool gradient) {
  RuleBuilder b(op);
  Value table = gradient ? op->getResult(0) : op->getOperand(0);
  Shape t = getShape(table), i = getShape(op->getOperand(1));
  axis += axis < 0 ? static_cast<int64_t>(t.size()) : 0;
  Letters ofTable = b.letters(t), ofIndices = b.letters(i);
  b.rule.factors[ofTable[axis]].kind = FactorKind::blocked;
  Letters taken(ArrayRef(ofTable).take_front(axis));
  taken.append(ofIndices);
  taken.append(ofTable.begin() + axis + 1, ofTable.end());
  b.operand(1, ofIndices);
  b.operand(0, gradient ? taken : ofTable);
  b.result(0, gradient ? ofTable : taken);
  b.linear({0});
  return b.finish();
}
ShardingRule GatherOp::getShardingRule() {
  return lookupRule(*this, getAxis(), false);
}
ShardingRule GatherGradOp::getShardingRule() {
  return lookupRule(*this, getAxis(), true);
}

/// The gradient's axis that is looked up stays whole, and so do others where
/// the indices cover a part only.
static ShardingRule elementsRule(Operation *op, int64_t axis, bool gradient) {
  RuleBuilder b(op);
  Value table = gradient ? op->getResult(0) : op->getOperand(0);
  Shape t = getShape(table), i = getShape(op->getOperand(1));
  axis += axis < 0 ? static_cast<int64_t>(t.size()) : 0;
  Letters ofTable, ofIndices;
  for (size_t d = 0; d < t.size(); ++d) {
    bool looked = static_cast<int64_t>(d) == axis;
    bool shared = !looked && t[d] == i[d];
    // A block answers for its own indices, as in a lookup of slices.
    FactorKind own = looked && !gradient ? FactorKind::blocked
                     : shared            ? FactorKind::pass
                                         : FactorKind::replicate;
    ofTable.push_back(b.factor(t[d], own));
    if (shared)
      ofIndices.push_back(ofTable.back());
    else
      ofIndices.push_back(
          b.factor(i[d], looked ? FactorKind::pass : FactorKind::replicate));
  }
  b.operand(1, ofIndices);
  b.operand(0, gradient ? ofIndices : ofTable);
  b.result(0, gradient ? ofTable : ofIndices);
  b.linear({0});
  return b.finish();
}
ShardingRule GatherElementsOp::getShardingRule() {
  return elementsRule(*this, getAxis(), false);
}
ShardingRule GatherElementsGradOp::getShardingRule() {
  return elementsRule(*this, getAxis(), true);
}

namespace {
/// Factors of ONNX's index tuples: shared batch dims, dims that the tuple
/// addresses (whole), dims of a slice.
struct TupleFactors {
  TupleFactors(RuleBuilder &b, Value table, Value indices, int64_t batchDims) {
    Shape t = getShape(table), i = getShape(indices);
    size_t batch = static_cast<size_t>(batchDims);
    size_t k = static_cast<size_t>(i.back().asConstant().value_or(0));
    ofTable = b.letters(ArrayRef(t).take_front(batch));
    ofIndices = ofTable;
    for (size_t d = batch; d < t.size(); ++d)
      ofTable.push_back(b.factor(t[d], d < batch + k ? FactorKind::replicate
                                                     : FactorKind::pass));
    for (size_t d = batch; d + 1 < i.size(); ++d)
      ofIndices.push_back(b.factor(i[d]));
    taken = ofIndices;
    taken.append(ofTable.begin() + std::min(batch + k, ofTable.size()),
                 ofTable.end());
    ofIndices.push_back(b.factor(i.back(), FactorKind::replicate));
  }
  Letters ofTable, ofIndices, taken;
};
} // namespace

ShardingRule GatherNdOp::getShardingRule() {
  RuleBuilder b(*this);
  TupleFactors f(b, getInput(), getIndices(), getBatchDims());
  b.operand(0, f.ofTable);
  b.operand(1, f.ofIndices);
  b.result(0, f.taken);
  b.linear({0});
  return b.finish();
}

ShardingRule ScatterNdOp::getShardingRule() {
  RuleBuilder b(*this);
  TupleFactors f(b, getInput(), getIndices(), 0);
  ScatterKind kind = getKind();
  bool adds = kind == ScatterKind::add;
  // Other kinds need all updates of a place: of equal tuples the last wins.
  for (unsigned letter : ArrayRef(f.ofIndices).drop_back())
    b.rule.factors[letter].kind =
        adds ? FactorKind::sum : FactorKind::replicate;
  b.operand(0, f.ofTable);
  b.operand(1, f.ofIndices);
  b.operand(2, f.taken);
  b.result(0, f.ofTable);
  if (adds)
    b.rule.addends.push_back(0);
  if (adds || kind == ScatterKind::set)
    b.linear({0, 2});
  return b.finish();
}
