//===- LocalizeIndexed.cpp - Ops that must know their block -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Lookups in a cut table, cross-entropy over a cut vocabulary (Megatron-LM,
// Shoeybi et al. 2019, section 3), means over a cut dim.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNLimits.h"
#include "passes/shard/Localize.h"
#include "passes/shard/Maker.h"

using namespace mlir;
using namespace dt;
using namespace dt::shard;

namespace {

/// Indices counted from the begin of this rank's block. Negative ones count
/// from the end of the whole first, if the op says so.
Value localIndices(Maker &m, Value indices, const FactorCut &cut,
                   std::optional<int64_t> wrap) {
  Type element = getElementTypeOrSelf(indices);
  if (wrap) {
    Value below = m.compare(nn::Compare::lt, indices, m.integer(0, element));
    Value wrapped = m.make<nn::AddOp>(indices, m.integer(*wrap, element));
    indices = m.select(below, wrapped, indices);
  }
  Value offset = m.cast(buildOffset(m.builder, m.loc, cut), element);
  return m.make<nn::SubOp>(indices, offset);
}

/// Size of the table in files.
int64_t wholeSize(nn::IndexedOpInterface op, const FactorCut &cut) {
  return op.getUnpadded().value_or(cut.size().constant());
}

/// Says on a lookup of local indices which ones are right. A table that is cut
/// again: they count from the begin of a block within the block.
void markBlock(nn::IndexedOpInterface op, const FactorCut &cut, int64_t extent,
               bool wrap, std::optional<int64_t> ignored = std::nullopt,
               StringAttr what = {}) {
  int64_t chunk = cut.chunk, over = cut.axis.over, stride = cut.axis.stride;
  SmallVector<int64_t> within;
  if (nn::BlockAttr known = op.getBlockAttr(); known && known.getOver() > 1) {
    llvm::append_range(within, known.getWithin());
    within.append({chunk, over, stride});
    extent = known.getExtent(), chunk = known.getChunk();
    over = known.getOver(), stride = known.getStride();
    wrap = known.getWrap(), ignored = known.getIgnored();
    what = known.getWhat();
  }
  op.setBlockAttr(nn::BlockAttr::get(op->getContext(), extent, chunk, over,
                                     stride, wrap, ignored, what, within));
}

bool isBlock(const FactorCut &cut) {
  return cut.size().asConstant() && cut.contiguous();
}

/// gather and gather_grad: indices outside the block give zeros (go nowhere).
template <typename OpT>
struct LookupModel : LocalizeOpInterface::ExternalModel<LookupModel<OpT>, OpT> {
  bool canCut(Operation *, const FactorCut &cut) const { return isBlock(cut); }
  SmallVector<Value> localize(Operation *op, OpBuilder &builder,
                              ValueRange operands, TypeRange types,
                              const FactorCut &cut) const {
    auto local = cast<OpT>(cloneLocal(builder, op, operands, types));
    local.setUnpadded(std::nullopt);
    // Places are counted where all of them are.
    if (auto gather = dyn_cast<nn::GatherOp>(local.getOperation()))
      if (nn::getShape(gather.getIndices()) !=
              nn::getShape(op->getOperand(1)) ||
          nn::getShape(gather.getInput())[0] !=
              nn::getShape(op->getOperand(0))[0])
        gather.setInOrder(false);
    if (cut.rule->factors[cut.factor].kind != nn::FactorKind::blocked)
      return {local.getResult()};
    builder.setInsertionPoint(local);
    Maker m(builder, op->getLoc());
    std::optional<int64_t> wrap;
    // Of a padded table they have been counted from the real end already.
    auto indexed = cast<OpT>(op);
    bool padded = indexed.getUnpadded().has_value(),
         fromEnd = !indexed.getFromStart();
    if (!padded && fromEnd && !local.getZeroOutOfRange())
      wrap = wholeSize(indexed, cut);
    if (padded || !local.getZeroOutOfRange() || indexed.getBlock()) {
      if (isa<nn::GatherOp>(op))
        markBlock(local, cut, wholeSize(indexed, cut), fromEnd);
    }
    local.getIndicesMutable().assign(
        localIndices(m, local.getIndices(), cut, wrap));
    local.setZeroOutOfRange(true);
    builder.setInsertionPointAfter(local);
    return {local.getResult()};
  }
};

/// 0 <= index < size.
Value isWithin(Maker &m, Value index, int64_t size) {
  Type element = getElementTypeOrSelf(index);
  Value low = m.compare(nn::Compare::ge, index, m.integer(0, element));
  Value high = m.compare(nn::Compare::lt, index, m.integer(size, element));
  return m.make<nn::AndOp>(low, high);
}

/// The nearest index into this rank's block.
Value clipToBlock(Maker &m, Value index, const FactorCut &cut) {
  Type element = getElementTypeOrSelf(index);
  Value low = m.make<nn::MaxOp>(index, m.integer(0, element));
  return m.make<nn::MinOp>(low, m.integer(cut.chunk - 1, element));
}

/// An op that changes where the block of an axis is its rank's own.
template <typename Model, typename OpT>
struct BlockModel : LocalizeOpInterface::ExternalModel<Model, OpT> {
  bool canCut(Operation *, const FactorCut &cut) const { return isBlock(cut); }
  SmallVector<Value> localize(Operation *op, OpBuilder &builder,
                              ValueRange operands, TypeRange types,
                              const FactorCut &cut) const {
    if (cut.rule->factors[cut.factor].kind != nn::FactorKind::blocked)
      return {cloneLocal(builder, op, operands, types)->getResult(0)};
    return {Model::localizeBlock(cast<OpT>(op), builder, operands, types, cut)};
  }
};

/// gather_elements: as a lookup, but the op itself has no zeros to give. (An
/// index outside of the block takes some element of it.)
struct ElementsModel : BlockModel<ElementsModel, nn::GatherElementsOp> {
  static Value localizeBlock(nn::GatherElementsOp op, OpBuilder &builder,
                             ValueRange operands, TypeRange types,
                             const FactorCut &cut) {
    Maker m(builder, op->getLoc());
    bool fromEnd = !op.getFromStart();
    Value local = localIndices(m, operands[1], cut,
                               fromEnd ? std::optional(cut.size().constant())
                                       : std::nullopt);
    Value inside = isWithin(m, local, cut.chunk);
    Operation *lookup = cloneLocal(builder, op, {operands[0], local}, types);
    markBlock(cast<nn::GatherElementsOp>(lookup), cut, cut.size().constant(),
              fromEnd);
    Value taken = lookup->getResult(0);
    return m.select(inside, taken, m.number(0, getElementTypeOrSelf(taken)));
  }
};

/// What both directions of a cut cross-entropy need of the labels.
struct LocalLabels {
  Value valid;   ///< counts at all
  Value inside;  ///< and lies in this rank's block
  Value local;   ///< counted from the block's begin
  Value clipped; ///< an index into the block
  LocalLabels(Maker &m, Value labels, int64_t ignore, const FactorCut &cut,
              int64_t classes) {
    Type element = getElementTypeOrSelf(labels);
    Value counted =
        m.compare(nn::Compare::ne, labels, m.integer(ignore, element));
    valid = m.make<nn::AndOp>(counted, isWithin(m, labels, classes));
    local = localIndices(m, labels, cut, std::nullopt);
    inside = m.make<nn::AndOp>(valid, isWithin(m, local, cut.chunk));
    clipped = clipToBlock(m, local, cut);
  }
};

/// How many of this rank's columns are classes (below 0: none), where not all
/// are: of the number that is the last of the loss's operands.
template <typename OpT>
Value localClasses(Maker &m, OpT loss, ValueRange operands,
                   const FactorCut &cut) {
  if (!loss.getClasses())
    return {};
  return localIndices(m, operands.back(), cut, std::nullopt);
}

/// Log-sum-exp over the whole vocabulary, and the label's score if it is here.
struct RowScores {
  Value sum;
  RowScores(Maker &m, Value logits, const LocalLabels &labels, Value classes,
            const FactorCut &cut) {
    Type rows = nn::withElementType(labels.clipped.getType(),
                                    getElementTypeOrSelf(logits));
    auto rank = nn::getRank(logits);
    Value at = nn::GatherElementsOp::create(m.builder, m.loc, logits,
                                            m.column(labels.clipped), rank - 1);
    Value picked = m.like(at, rows);
    // The loss of any class plus its score is the block's log-sum-exp.
    Value loss = nn::CrossEntropyOp::create(m.builder, m.loc, logits,
                                            labels.clipped, classes, -100)
                     .getResult();
    Value block = m.make<nn::AddOp>(loss, picked);
    Value top = m.allReduce(rt::Reduction::Max, block, cut.axis);
    Value part =
        nn::ExpOp::create(m.builder, m.loc, m.make<nn::SubOp>(block, top));
    Value total = m.allReduce(rt::Reduction::Sum, part, cut.axis);
    sum = m.make<nn::AddOp>(top, nn::LogOp::create(m.builder, m.loc, total));
  }
};

/// Partial sums: the first rank adds the log-sum-exp, the label's rank its
/// score.
struct CrossEntropyModel : BlockModel<CrossEntropyModel, nn::CrossEntropyOp> {
  static Value localizeBlock(nn::CrossEntropyOp op, OpBuilder &builder,
                             ValueRange operands, TypeRange types,
                             const FactorCut &cut) {
    Maker m(builder, op->getLoc());
    int64_t classes = wholeSize(op, cut), ignore = op.getIgnoreIndex();
    LocalLabels labels(m, operands[1], ignore, cut, classes);
    RowScores scores(m, operands[0], labels, localClasses(m, op, operands, cut),
                     cut);
    cut.rowSum = scores.sum;
    // The label's own score, with the label as it is: that is what is checked.
    auto rank = nn::getRank(operands[0]);
    auto own = nn::GatherElementsOp::create(builder, op->getLoc(), operands[0],
                                            m.column(labels.local), rank - 1);
    // A label ahead of the block is elsewhere, also where that is cut again.
    own.setFromStart(true);
    markBlock(own, cut, classes, /*wrap=*/false, ignore,
              builder.getStringAttr("classes of cross_entropy"));
    Value picked = m.like(own, scores.sum.getType());
    Value zero = m.number(0, getElementTypeOrSelf(scores.sum));
    Value sum = m.select(labels.valid, scores.sum, zero);
    Value once = dist::PartialOp::create(builder, op->getLoc(), sum.getType(),
                                         sum, cut.axis.over, cut.axis.stride);
    Value mine = m.select(labels.inside, picked, zero);
    return m.make<nn::SubOp>(once, mine);
  }
};

/// (exp(x - log-sum-exp) - [label is here]) * dy
struct CrossEntropyGradModel
    : BlockModel<CrossEntropyGradModel, nn::CrossEntropyGradOp> {
  static Value localizeBlock(nn::CrossEntropyGradOp op, OpBuilder &builder,
                             ValueRange operands, TypeRange types,
                             const FactorCut &cut) {
    Location loc = op->getLoc();
    Maker m(builder, loc);
    LocalLabels labels(m, operands[1],
                       static_cast<int64_t>(op.getIgnoreIndex()), cut,
                       wholeSize(op, cut));
    Value classes = localClasses(m, op, operands, cut);
    Value sum = cut.rowSum;
    if (!sum)
      sum = RowScores(m, operands[0], labels, classes, cut).sum;
    Type element = getElementTypeOrSelf(operands[0]);
    Value zero = m.number(0, element), one = m.number(1, element);
    Value grad = m.select(labels.valid, operands[2], zero);
    Value shifted = m.make<nn::SubOp>(operands[0], m.column(sum));
    Value share = nn::ExpOp::create(builder, loc, shifted);
    Value numbers = numberClasses(m, labels, cut);
    if (classes)
      share =
          m.select(m.compare(nn::Compare::lt, numbers,
                             m.cast(classes, getElementTypeOrSelf(numbers))),
                   share, zero);
    Value hot = m.select(isLabel(m, labels, numbers), one, zero);
    Value result = m.make<nn::SubOp>(share, hot);
    return m.make<nn::MulOp>(result, m.column(grad));
  }

  /// [chunk]: 0, 1, 2, ...
  static Value numberClasses(Maker &m, const LocalLabels &labels,
                             const FactorCut &cut) {
    Type element = getElementTypeOrSelf(labels.clipped);
    auto type = RankedTensorType::get({cut.chunk}, element);
    auto classes = nn::GenerateOp::create(m.builder, m.loc, type);
    Block &block = classes.getBody().emplaceBlock();
    Value i = block.addArgument(m.builder.getIndexType(), m.loc);
    OpBuilder inner = OpBuilder::atBlockEnd(&block);
    Value number = arith::IndexCastOp::create(inner, m.loc, element, i);
    nn::YieldOp::create(inner, m.loc, number);
    return classes.getResult();
  }

  /// [rows, chunk]: the class is the row's label.
  static Value isLabel(Maker &m, const LocalLabels &labels, Value numbers) {
    Value none = m.integer(-1, getElementTypeOrSelf(labels.clipped));
    Value label = m.select(labels.inside, labels.clipped, none);
    return m.compare(nn::Compare::eq, m.column(label), numbers);
  }
};

/// A mean of a part, over the number of parts.
struct ReduceModel
    : LocalizeOpInterface::ExternalModel<ReduceModel, nn::ReduceOp> {
  bool canCut(Operation *op, const FactorCut &) const {
    return isa<FloatType>(getElementTypeOrSelf(op->getOperand(0)));
  }
  SmallVector<Value> localize(Operation *op, OpBuilder &builder,
                              ValueRange operands, TypeRange types,
                              const FactorCut &cut) const {
    Value part = cloneLocal(builder, op, operands, types)->getResult(0);
    if (cut.rule->factors[cut.factor].kind != nn::FactorKind::blocked)
      return {part};
    Maker m(builder, op->getLoc());
    double share = 1.0 / static_cast<double>(cut.axis.over);
    return {
        m.make<nn::MulOp>(part, m.number(share, getElementTypeOrSelf(part)))};
  }
};

} // namespace

Value dt::shard::buildOffset(OpBuilder &builder, Location loc,
                             const FactorCut &cut) {
  Maker m(builder, loc);
  Type i64 = builder.getI64Type();
  Value rank =
      dist::RankOp::create(builder, loc, RankedTensorType::get({}, i64),
                           cut.axis.over, cut.axis.stride);
  return m.make<nn::MulOp>(rank, m.integer(cut.chunk, i64));
}

void dt::shard::registerLocalizeIndexedModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, nn::NNDialect *) {
    nn::GatherOp::attachInterface<LookupModel<nn::GatherOp>>(*context);
    nn::GatherGradOp::attachInterface<LookupModel<nn::GatherGradOp>>(*context);
    nn::GatherElementsOp::attachInterface<ElementsModel>(*context);
    nn::CrossEntropyOp::attachInterface<CrossEntropyModel>(*context);
    nn::CrossEntropyGradOp::attachInterface<CrossEntropyGradModel>(*context);
    nn::ReduceOp::attachInterface<ReduceModel>(*context);
  });
}
