//===- DistCollectives.cpp - Collectives and layouts ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Verifiers, folders and sharding rules of the ops that the shard phase places.
// Their rules let a second axis be cut in a function that a first one has cut.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNRuleBuilder.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dt;
using namespace dt::dist;
using nn::DimExpr;

#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.cpp.inc"

void DistDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/dist/DistAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

LogicalResult CutAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                              unsigned, int64_t chunk, int64_t over,
                              int64_t stride) {
  if (chunk >= 1 && over >= 1 && stride >= 1)
    return success();
  return emitError() << "#dist.cut needs a chunk, ranks and a stride of at "
                        "least 1";
}

SmallVector<int64_t> LayoutAttr::getLocalShape() const {
  SmallVector<int64_t> local(getShape());
  for (CutAttr cut : getCuts())
    if (!ShapedType::isDynamic(local[cut.getDim()]))
      local[cut.getDim()] /= cut.getOver();
  return local;
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> unpadded,
                                 ArrayRef<CutAttr> cuts) {
  if (!unpadded.empty() && unpadded.size() != shape.size())
    return emitError() << "#dist.layout: shapes of different rank";
  for (auto [whole, part] : llvm::zip(shape, unpadded))
    if (part > whole)
      return emitError() << "#dist.layout: the whole is smaller than what it "
                            "pads";
  SmallVector<int64_t> local(shape);
  for (CutAttr cut : cuts) {
    if (cut.getDim() >= shape.size())
      return emitError() << "#dist.layout cuts dim " << cut.getDim()
                         << " of a tensor of rank " << shape.size();
    int64_t &size = local[cut.getDim()];
    if (ShapedType::isDynamic(size))
      continue;
    if (size % (cut.getOver() * cut.getChunk()))
      return emitError() << "#dist.layout: " << cut.getOver() << " x "
                         << cut.getChunk() << " does not divide dim "
                         << cut.getDim() << " of size " << size;
    size /= cut.getOver();
  }
  return success();
}

static ParseResult parseShape(AsmParser &parser, SmallVector<int64_t> &shape) {
  return parser.parseDimensionList(shape, true, false);
}

static void printShape(AsmPrinter &printer, ArrayRef<int64_t> shape) {
  printer.printDimensionList(shape);
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> shape, unpadded;
  SmallVector<CutAttr> cuts;
  auto cut = [&]() -> ParseResult {
    return parser.parseAttribute(cuts.emplace_back());
  };
  if (parser.parseLess() || parseShape(parser, shape))
    return {};
  if (succeeded(parser.parseOptionalKeyword("of")) &&
      parseShape(parser, unpadded))
    return {};
  if (parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, cut) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<LayoutAttr>(parser.getContext(), shape, unpadded,
                                       cuts);
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printShape(printer, getShape());
  if (!getUnpadded().empty()) {
    printer << " of ";
    printShape(printer, getUnpadded());
  }
  printer << ", [";
  llvm::interleaveComma(getCuts(), printer,
                        [&](CutAttr cut) { printer << cut; });
  printer << "]>";
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

/// Dim `cut.dim` becomes the whole of its parts (`gathers`), or a part.
static LogicalResult applyCut(Operation *op, nn::Shape &shape, DimCut cut,
                              uint64_t over, bool gathers) {
  if (cut.dim >= shape.size())
    return op->emitOpError("axis ")
           << cut.dim << " of a tensor of rank " << shape.size();
  if (cut.chunk < 1)
    return op->emitOpError("needs a chunk of at least 1");
  DimExpr &dim = shape[cut.dim], parts(gathers ? 1 : over);
  std::optional<DimExpr> part = dim.exactDiv(parts);
  if (!part || !part->exactDiv(DimExpr(cut.chunk)))
    return op->emitOpError()
           << parts.str() << " x " << cut.chunk << " does not divide dim "
           << cut.dim << " of " << nn::shapeToString(shape);
  dim = gathers ? dim * DimExpr(over) : *part;
  return success();
}

/// Result 0 is operand 0 with the cut that is taken made whole and the dim that
/// is given cut.
static LogicalResult verifyCuts(Operation *op, std::optional<DimCut> taken,
                                std::optional<DimCut> given, uint64_t over) {
  auto in = cast<RankedTensorType>(op->getOperand(0).getType());
  auto out = cast<RankedTensorType>(op->getResult(0).getType());
  if (taken && given && taken->dim == given->dim)
    return op->emitOpError("gathers and scatters two dims of one tensor");
  nn::Shape shape = nn::getShape(in);
  if ((given && failed(applyCut(op, shape, *given, over, false))) ||
      (taken && failed(applyCut(op, shape, *taken, over, true))))
    return failure();
  if (shape == nn::getShape(out) && in.getElementType() == out.getElementType())
    return success();
  return op->emitOpError("expected result type ")
         << nn::makeTensorType(shape, in.getElementType()) << ", got " << out;
}

nn::DimExpr dt::dist::getBlockRows(const nn::Shape &part, DimCut cut) {
  ArrayRef<nn::DimExpr> dims(part);
  return nn::getNumElements(dims.take_front(cut.dim)) *
         *dims[cut.dim].exactDiv(nn::DimExpr(cut.chunk));
}

LogicalResult dt::dist::verifyCollective(Operation *op) {
  auto collective = cast<CollectiveOpInterface>(op);
  std::optional<DimCut> taken = collective.getTakenCut(),
                        given = collective.getGivenCut();
  assert(taken.has_value() == collective.getForm().gathers &&
         given.has_value() == collective.getForm().scatters &&
         "cuts that are not those of the kind");
  return failure(failed(verifyAxis(collective)) ||
                 failed(verifyCuts(op, taken, given, collective.getOver())));
}

LogicalResult PartialOp::verify() { return verifyAxis(*this); }
LogicalResult RankOp::verify() { return verifyAxis(*this); }
LogicalResult SliceOp::verify() {
  return failure(failed(verifyAxis(*this)) ||
                 failed(verifyCuts(*this, std::nullopt,
                                   DimCut{getAxis(), getChunk()}, getOver())));
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

OpFoldResult PartialOp::fold(FoldAdaptor) {
  return getOver() == 1 ? OpFoldResult(getInput()) : OpFoldResult();
}
/// A part of what was gathered from those parts.
OpFoldResult SliceOp::fold(FoldAdaptor) {
  if (getOver() == 1)
    return getInput();
  auto gather = getInput().getDefiningOp<AllGatherOp>();
  if (gather && gather.getAxis() == getAxis() &&
      gather.getChunk() == getChunk() && gather.getOver() == getOver() &&
      gather.getStride() == getStride())
    return gather.getInput();
  return {};
}

/// Axes major and minor are one of more ranks when they are neighbours.
template <typename OpT> static bool areNeighbours(OpT major, OpT minor) {
  return major.getStride() == minor.getStride() * minor.getOver();
}

LogicalResult AllReduceOp::canonicalize(AllReduceOp op,
                                        PatternRewriter &rewriter) {
  auto inner = op.getInput().getDefiningOp<AllReduceOp>();
  if (!inner || inner.getKind() != op.getKind() || !inner->hasOneUse())
    return failure();
  if (!areNeighbours(op, inner) && !areNeighbours(inner, op))
    return failure();
  rewriter.replaceOpWithNewOp<AllReduceOp>(
      op, op.getType(), op.getKind(), inner.getInput(),
      op.getOver() * inner.getOver(),
      std::min(op.getStride(), inner.getStride()));
  return success();
}

/// Two that cut (or gather) one dim over neighbouring axes are one. The dim is
/// [outer][major][minor][chunk]; gathers may come in either order, and so may
/// cuts: what is done while the minor axis is in place has the larger chunk.
template <typename OpT>
static LogicalResult mergeCuts(OpT op, bool gathers,
                               PatternRewriter &rewriter) {
  auto inner = op.getInput().template getDefiningOp<OpT>();
  if (!inner || inner.getAxis() != op.getAxis() || !inner->hasOneUse())
    return failure();
  OpT major = inner, minor = op;
  if (!areNeighbours(major, minor))
    std::swap(major, minor);
  if (!areNeighbours(major, minor))
    return failure();
  bool whole =
      gathers == (major == op); // the minor axis is in the major's chunk
  uint64_t chunk = minor.getChunk();
  if (major.getChunk() != (whole ? chunk * minor.getOver() : chunk))
    return failure();
  rewriter.replaceOpWithNewOp<OpT>(
      op, op.getType(), inner.getInput(), op.getAxis(), chunk,
      major.getOver() * minor.getOver(), minor.getStride());
  return success();
}

LogicalResult AllGatherOp::canonicalize(AllGatherOp op,
                                        PatternRewriter &rewriter) {
  return mergeCuts(op, true, rewriter);
}
LogicalResult SliceOp::canonicalize(SliceOp op, PatternRewriter &rewriter) {
  return mergeCuts(op, false, rewriter);
}
LogicalResult ReduceScatterOp::canonicalize(ReduceScatterOp op,
                                            PatternRewriter &rewriter) {
  return mergeCuts(op, false, rewriter);
}

//===----------------------------------------------------------------------===//
// Rules for a further axis
//===----------------------------------------------------------------------===//

static nn::ShardingRule sameDims(Operation *op, bool linear) {
  nn::RuleBuilder b(op);
  auto list = b.letters(nn::getShape(op->getResult(0)));
  b.operand(0, list);
  b.result(0, list);
  if (linear)
    b.linear({0});
  return b.finish();
}

nn::ShardingRule PartialOp::getShardingRule() { return sameDims(*this, true); }

/// [outer][over][chunk] on one side, [outer][chunk] on the other.
static nn::ShardingRule cutDims(Operation *op, DimCut cut, int64_t over,
                                bool gathers) {
  auto [axis, chunk] = cut;
  nn::RuleBuilder b(op);
  Value whole = gathers ? op->getResult(0) : op->getOperand(0);
  nn::Shape shape = nn::getShape(whole);
  auto list = b.letters(shape);
  b.operand(0, list);
  b.result(0, list);
  unsigned outer = list[axis];
  b.rule.factors[outer] = {*shape[axis].exactDiv(DimExpr(over * chunk)),
                           nn::FactorKind::pass};
  unsigned ranks = b.factor(DimExpr(over), nn::FactorKind::replicate);
  unsigned inner = b.factor(DimExpr(chunk));
  b.operandDim(0, axis, {outer, inner});
  b.resultDim(0, axis, {outer, inner});
  if (gathers)
    b.resultDim(0, axis, {outer, ranks, inner});
  else
    b.operandDim(0, axis, {outer, ranks, inner});
  b.linear({0});
  return b.finish();
}

nn::ShardingRule dt::dist::getCollectiveRule(Operation *op) {
  auto collective = cast<CollectiveOpInterface>(op);
  std::optional<DimCut> taken = collective.getTakenCut(),
                        given = collective.getGivenCut();
  assert(!(taken && given) && "no rule for two cuts");
  if (!taken && !given)
    return sameDims(op, collective.getReduction().value_or(
                            rt::Reduction::Sum) == rt::Reduction::Sum);
  return cutDims(op, taken ? *taken : *given, collective.getOver(),
                 taken.has_value());
}
nn::ShardingRule SliceOp::getShardingRule() {
  return cutDims(*this, {getAxis(), getChunk()}, getOver(), false);
}
