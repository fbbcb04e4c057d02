//===- LimitChoices.cpp - A capacity of experts -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// While rows stand in the order of tokens and the batch is whole: which rows
// are of which sample follows from shapes, and what is dropped does not depend
// on how the batch is cut later (docs/experts.md).
//
//===----------------------------------------------------------------------===//

#include "passes/import/Choices.h"
#include "passes/import/Passes.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "dialects/nn/NNShape.h"

#include "llvm/ADT/SetVector.h"

#include <limits>

using namespace mlir;

namespace dt::import {
#define GEN_PASS_DEF_LIMITCHOICES
#include "passes/import/Passes.h.inc"

namespace {

using nn::DimExpr;

/// How the rows of a choice are divided among samples.
struct Samples {
  nn::Shape choices; ///< [samples, choices of each]
  Value segments;    ///< of packed rows: which are a sample's; [1, rows]
};

class Limiter {
public:
  Limiter(dist::ModuleOp module)
      : module(module), forward(module.getForward()), b(module.getContext()),
        loc(module.getLoc()),
        capacity(module.getExpertCapacity()->convertToDouble()) {}

  LogicalResult run() {
    Choices products = findExpertChoices(forward);
    if (products.empty())
      return fail() << "it has no layer of experts";
    for (auto &[choice, ops] : products)
      if (failed(limit(choice, ops)))
        return failure();
    showDropped();
    return success();
  }

private:
  InFlightDiagnostic fail() {
    return module.emitError("'")
           << module.getSymName()
           << "' has a capacity of experts (experts.capacity), but ";
  }
  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(b, loc, std::forward<Args>(args)...);
  }
  Value splat(int64_t number, Type element) {
    auto type = RankedTensorType::get({}, element);
    return make<nn::ConstantOp>(
        type, DenseElementsAttr::get(type, b.getIntegerAttr(element, number)));
  }
  Value reshape(Value v, nn::Shape shape) {
    if (nn::getShape(v) == shape)
      return v;
    return make<nn::ReshapeOp>(
        nn::makeTensorType(shape, getElementTypeOrSelf(v)), v);
  }

  LogicalResult limit(Value choice, ArrayRef<nn::ExpertLinearOp> products) {
    auto top = choice.getDefiningOp<nn::TopKOp>();
    nn::ExpertLinearOp first = products.front();
    int64_t experts = countExperts(first);
    if (!top || choice != top.getIndices() ||
        int64_t(top.getAxis()) + 1 != nn::getRank(choice) ||
        nn::getShape(top.getInput()).back() != DimExpr(experts))
      return fail() << "the numbers of the " << experts
                    << " experts of a layer are not those of the largest "
                       "scores (top_k) of a token, along the last axis";
    b.setInsertionPointAfter(top);
    loc = first.getLoc();
    FailureOr<Samples> samples = findSamples(choice);
    if (failed(samples))
      return failure();
    Value kept = make<nn::LimitChoicesOp>(reshape(choice, samples->choices),
                                          samples->segments, uint64_t(experts),
                                          llvm::APFloat(capacity));
    Value out = count(kept, *samples);
    Value none = splat(experts, getElementTypeOrSelf(choice));
    Value limited =
        make<nn::WhereOp>(reshape(kept, nn::getShape(choice)), choice, none);
    for (nn::ExpertLinearOp product : products) {
      b.setInsertionPoint(product);
      product.getExpertsMutable().assign(
          reshape(limited, nn::getShape(product.getExperts())));
      product.setLimited(true);
    }
    nn::ExpertLinearOp last = products.back();
    goBehindLayer(last.getResult());
    Value &sum = dropped[out.getType()];
    sum = sum ? make<nn::AddOp>(sum, out) : out;
    return success();
  }

  /// Where what the products give has several users. Numbers are added up
  /// there: layers then stay equal, and only sums cross into the next stage.
  void goBehindLayer(Value result) {
    while (result.hasOneUse() && (*result.user_begin())->getNumResults() == 1 &&
           (*result.user_begin())->getBlock() == result.getParentBlock())
      result = (*result.user_begin())->getResult(0);
    b.setInsertionPointAfterValue(result);
  }

  FailureOr<Samples> findSamples(Value choice) {
    nn::Shape shape = nn::getShape(choice);
    DimExpr all = nn::getNumElements(shape);
    bool oneSymbol = all.terms().size() == 1 &&
                     all.terms()[0].symbols.size() == 1 &&
                     !shape[0].isConstant();
    auto dim = oneSymbol
                   ? module.lookupSymbol<nn::DimOp>(all.terms()[0].symbols[0])
                   : nn::DimOp();
    DimExpr rows = nn::getNumElements(ArrayRef(shape).drop_back());
    if (dim && dim.getMeasure())
      return findSegments(all, rows);
    if (!dim || !dim.getItem())
      return fail() << "which of a layer's " << rows.str()
                    << " rows are of which sample is not known; expected a "
                       "dim that counts samples, as the first one";
    return Samples{{DimExpr::symbol(dim.getSymName()),
                    DimExpr(all.terms()[0].coefficient)},
                   Value()};
  }

  /// Packed rows are of the samples that attention keeps apart.
  FailureOr<Samples> findSegments(const DimExpr &all, const DimExpr &rows) {
    llvm::SetVector<Value> found;
    forward.walk([&](nn::AttentionOp op) {
      Value ids = op.getKeySegments();
      if (ids && nn::getNumElements(nn::getShape(ids)) == rows)
        found.insert(nn::throughReshapes(ids));
    });
    if (found.size() != 1)
      return fail() << "which of a layer's " << rows.str()
                    << " packed rows are of which sample is said by "
                    << found.size()
                    << " tensors of segments; expected one that its attention "
                       "compares";
    Value segments = reshape(found[0], {DimExpr(1), rows});
    if (!getElementTypeOrSelf(segments).isInteger(64))
      segments = make<nn::CastOp>(
          nn::makeTensorType({DimExpr(1), rows}, b.getI64Type()), segments);
    return Samples{{DimExpr(1), all}, segments};
  }

  /// How many choices a layer drops: one number a sample, of packed rows one a
  /// row.
  Value count(Value kept, const Samples &samples) {
    Type i64 = b.getI64Type();
    nn::Shape shape = samples.choices;
    if (samples.segments) {
      DimExpr rows = nn::getShape(samples.segments)[1];
      shape = {rows, *samples.choices[1].exactDiv(rows)};
    }
    Value ones =
        make<nn::CastOp>(nn::makeTensorType(shape, i64), reshape(kept, shape));
    Value stay = make<nn::ReduceOp>(nn::ReduceKind::sum, ones,
                                    ArrayRef<int64_t>{1}, false);
    Value out = make<nn::SubOp>(splat(shape[1].constant(), i64), stay);
    if (samples.segments) // rows that are no item's (docs/sizes.md)
      out = make<nn::WhereOp>(isPadding(samples.segments, shape[0]),
                              splat(0, i64), out);
    return out;
  }

  Value isPadding(Value segments, const DimExpr &rows) {
    return make<nn::CmpOp>(
        nn::Compare::eq, reshape(segments, {rows}),
        splat(std::numeric_limits<int32_t>::min(), b.getI64Type()));
  }

  void showDropped() {
    Operation *end = forward.getBody().front().getTerminator();
    b.setInsertionPoint(end);
    loc = module.getLoc();
    Value all;
    for (auto &[type, counts] : dropped) {
      Value floats = make<nn::CastOp>(
          nn::withElementType(counts.getType(), b.getF32Type()), counts);
      Value sum = make<nn::ReduceOp>(nn::ReduceKind::sum, floats,
                                     ArrayRef<int64_t>{0}, false);
      all = all ? make<nn::AddOp>(all, sum) : sum;
    }
    std::string name = (module.getSymName() + ".dropped").str(),
                numerator = "loss." + name;
    addResult(forward, all, numerator);
    OpBuilder top = OpBuilder::atBlockEnd(module->getBlock());
    auto loss =
        dist::LossOp::create(top, loc, top.getStringAttr(name),
                             FlatSymbolRefAttr::get(module.getSymNameAttr()),
                             top.getStringAttr(numerator), FlatSymbolRefAttr(),
                             top.getF64FloatAttr(0));
    loss.setIgnoresPadding(true);
  }

  dist::ModuleOp module;
  func::FuncOp forward;
  OpBuilder b;
  Location loc;
  double capacity;
  /// Numbers of dropped rows so far, by their shape.
  llvm::MapVector<Type, Value> dropped;
};

struct LimitChoicesPass : impl::LimitChoicesBase<LimitChoicesPass> {
  void runOnOperation() override {
    for (auto module : getOperation().getOps<dist::ModuleOp>()) {
      if (!module.getExpertCapacity())
        continue;
      if (failed(Limiter(module).run()))
        return signalPassFailure();
      module.removeExpertCapacityAttr();
    }
  }
};

} // namespace
} // namespace dt::import
