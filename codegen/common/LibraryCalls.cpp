//===- LibraryCalls.cpp - Calls of runtime functions ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Products, convolutions, attention, checks of indices and collectives: how the
// attributes of an op become the arguments that runtime/ declares.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/FunctionEmitter.h"

using namespace mlir;

namespace dt::codegen {

LogicalResult FunctionEmitter::libraryCall(StringRef callee, ValueRange buffers,
                                           cpp::Codes extra) {
  return libraryCall(callee, buffers, "", ValueRange(), extra);
}

LogicalResult FunctionEmitter::libraryCall(StringRef callee, ValueRange buffers,
                                           const cpp::Code &between,
                                           ValueRange others,
                                           cpp::Codes extra) {
  SmallVector<cpp::Code> arguments;
  SmallVector<Value> values;
  auto add = [&](ValueRange added) {
    for (Value buffer : added) {
      arguments.push_back(buffer ? "{}" : "nullptr");
      if (buffer)
        values.push_back(value(buffer));
    }
  };
  add(buffers);
  if (!between.empty())
    arguments.push_back(between);
  add(others);
  llvm::append_range(arguments, extra);
  if (StringRef stream = owner.target.streamArgument(rt::Stream::compute);
      !stream.empty())
    arguments.push_back(stream);
  createCall(owner.b, owner.loc, {}, cpp::runtime(callee), arguments, values);
  return success();
}

/// Whether a call's operands may be rounded to TF32.
static bool mayBeTF32(Operation *call) {
  auto first = cast<rt::BufferType>(call->getOperand(0).getType());
  return first.getElementType().isF32() &&
         call->getParentOfType<rt::ModuleOp>().getTf32();
}

LogicalResult FunctionEmitter::emitMatmul(rt::MatmulOp op) {
  SmallVector<cpp::Code> fields;
  auto add = [&](StringRef name, const nn::DimExpr &dim, bool always = false) {
    std::string text = size(dim);
    if (always || text != "0")
      fields.push_back(cpp::field(name, text));
  };
  add("batch", op.getBatch(), true);
  add("m", op.getM(), true);
  add("n", op.getN(), true);
  add("k", op.getK(), true);
  if (op.getTransA())
    fields.push_back(cpp::field("transA", "true"));
  if (op.getTransB())
    fields.push_back(cpp::field("transB", "true"));
  add("strideA", op.getStrideA());
  add("strideB", op.getStrideB());
  add("strideC", op.getStrideC());
  add("lda", op.getLda());
  add("ldb", op.getLdb());
  add("ldc", op.getLdc());
  if (mayBeTF32(op))
    fields.push_back(cpp::field("tf32", "true"));
  return libraryCall("matmul", {op.getA(), op.getB(), op.getBias(), op.getC()},
                     {cpp::list(fields), op.getAccumulate() ? 1 : 0});
}

template <typename OpT>
cpp::Code FunctionEmitter::groupedShape(OpT op, bool transB) {
  SmallVector<cpp::Code> fields{
      cpp::field("m", size(op.getM())), cpp::field("n", size(op.getN())),
      cpp::field("k", size(op.getK())), cpp::field("count", op.getCount())};
  if (transB)
    fields.push_back(cpp::field("transB", "true"));
  if (mayBeTF32(op))
    fields.push_back(cpp::field("tf32", "true"));
  return cpp::list(fields);
}
template cpp::Code FunctionEmitter::groupedShape(rt::GroupedMatmulOp, bool);
template cpp::Code FunctionEmitter::groupedShape(rt::GroupedMatmulDwOp, bool);

std::string FunctionEmitter::sizes(nn::DimsAttr dims) {
  return cpp::list(llvm::map_to_vector(
      dims.getShape(), [&](auto &dim) { return cpp::Code(size(dim)); }));
}

static std::string numbers(ArrayRef<int64_t> values) {
  return cpp::list(llvm::map_to_vector(
      values, [](int64_t value) { return cpp::Code(value); }));
}

template <typename OpT>
LogicalResult FunctionEmitter::emitConv(OpT op, StringRef callee,
                                        ValueRange buffers) {
  SmallVector<cpp::Code> fields{
      cpp::field("n", size(op.getN())),
      cpp::field("c", op.getC()),
      cpp::field("o", op.getO()),
      cpp::field("groups", op.getGroups()),
      cpp::field("dims", op.getIn().size()),
      cpp::field("in", sizes(op.getInAttr())),
      cpp::field("kernel", numbers(op.getKernel())),
      cpp::field("stride", numbers(op.getStrides())),
      cpp::field("dilation", numbers(op.getDilations())),
      cpp::field("padBegin", numbers(op.getPadBegin())),
      cpp::field("padEnd", numbers(op.getPadEnd()))};
  if (mayBeTF32(op))
    fields.push_back(cpp::field("tf32", "true"));
  SmallVector<cpp::Code> extra{cpp::list(fields)};
  if constexpr (std::is_same_v<OpT, rt::ConvDwOp>)
    extra.push_back(op.getAccumulate() ? 1 : 0);
  return libraryCall(callee, buffers, extra);
}
template LogicalResult FunctionEmitter::emitConv(rt::ConvOp, StringRef,
                                                 ValueRange);
template LogicalResult FunctionEmitter::emitConv(rt::ConvDxOp, StringRef,
                                                 ValueRange);
template LogicalResult FunctionEmitter::emitConv(rt::ConvDwOp, StringRef,
                                                 ValueRange);

/// How the runtime calls the type of an operand's elements; none: no operand.
static StringRef elementKind(Value operand,
                             ArrayRef<std::pair<Type, StringRef>> kinds) {
  if (operand)
    for (auto [type, kind] : kinds)
      if (cast<rt::BufferType>(operand.getType()).getElementType() == type)
        return kind;
  return "None";
}

/// The rank's place on an axis of its group, or that of one behind it.
static std::string placeOnAxis(int64_t over, int64_t stride,
                               int64_t behind = 0) {
  if (behind == 0)
    return cpp::call("dt::rt::placeOnAxis", {"context.group", over, stride});
  return cpp::call("dt::rt::placeOnAxis",
                   {"context.group", over, stride, behind});
}

static std::string stripesText(nn::StripesAttr stripes) {
  return cpp::list({std::to_string(stripes.getChunk()),
                    std::to_string(stripes.getOver()),
                    placeOnAxis(stripes.getOver(), stripes.getStride(),
                                stripes.getBehind())});
}

template <typename OpT>
LogicalResult FunctionEmitter::emitAttention(OpT op, StringRef callee,
                                             ValueRange others) {
  Builder &b = owner.b;
  SmallVector<cpp::Code> fields{
      cpp::field("b", size(op.getB())),   cpp::field("t", size(op.getT())),
      cpp::field("s", size(op.getS())),   cpp::field("h", size(op.getH())),
      cpp::field("hk", size(op.getHk())), cpp::field("d", size(op.getD())),
      cpp::field("dv", size(op.getDv()))};
  auto strides = [&](const nn::Shape &by, ArrayRef<StringRef> names) {
    for (auto [dim, name] : llvm::zip(by, names))
      fields.push_back(cpp::field(name, size(dim)));
  };
  strides(op.getQStrides(), {"qb", "qt", "qh"});
  strides(op.getKStrides(), {"kb", "ks", "kh"});
  strides(op.getVStrides(), {"vb", "vs", "vh"});
  strides(op.getOStrides(), {"ob", "ot", "oh"});
  fields.push_back(cpp::field("scale", constantText(owner.b.getF32FloatAttr(
                                           op.getScale().convertToDouble()))));
  fields.push_back(cpp::field("causal", op.getCausal() ? "true" : "false"));
  fields.push_back(cpp::field("emptyRow", enumText(op.getEmptyRow())));
  StringRef kind =
      elementKind(op.getMask(), {{b.getF32Type(), "Additive"},
                                 {b.getBF16Type(), "AdditiveNarrow"},
                                 {b.getI1Type(), "Boolean"}});
  fields.push_back(cpp::field("mask", cpp::scoped("dt::rt::MaskKind", kind)));
  if (op.getMask())
    strides(op.getMaskStrides(), {"maskB", "maskH", "maskT", "maskS"});
  if (Value numbers = op.getQuerySegments()) {
    StringRef kind = elementKind(
        numbers, {{b.getI32Type(), "Int32"}, {b.getI64Type(), "Int64"}});
    fields.push_back(
        cpp::field("segments", cpp::scoped("dt::rt::SegmentKind", kind)));
    strides(*op.getSegmentStrides(),
            {"querySegmentB", "querySegmentT", "keySegmentB"});
  }
  if (std::optional<int64_t> window = op.getWindow())
    fields.push_back(cpp::field("window", *window));
  if (std::optional<APFloat> cap = op.getSoftCap())
    fields.push_back(cpp::field(
        "softCap", constantText(b.getF32FloatAttr(cap->convertToDouble()))));
  if (std::optional<nn::StripesAttr> stripes = op.getStripes())
    fields.push_back(cpp::field("stripes", stripesText(*stripes)));
  if (std::optional<nn::StripesAttr> stripes = op.getKeyStripes())
    fields.push_back(cpp::field("keyStripes", stripesText(*stripes)));
  if (op.getPartial())
    fields.push_back(cpp::field("partial", "true"));
  if constexpr (std::is_same_v<OpT, rt::AttentionGradOp>)
    for (auto [by, name] : {std::pair(op.getDqStridesAttr(), "dqStrides"),
                            {op.getDkStridesAttr(), "dkStrides"},
                            {op.getDvStridesAttr(), "dvStrides"}})
      if (by)
        fields.push_back(cpp::field(name, sizes(by)));
  auto orNull = [&](Value buffer) {
    return buffer ? text(buffer) : std::string("nullptr");
  };
  std::string mask = orNull(op.getMask());
  if (op.getQuerySegments())
    mask = cpp::list(
        {mask, text(op.getQuerySegments()), text(op.getKeySegments())});
  return libraryCall(callee, {op.getQ(), op.getK(), op.getV()}, mask, others,
                     {cpp::list(fields)});
}
template LogicalResult FunctionEmitter::emitAttention(rt::AttentionOp,
                                                      StringRef, ValueRange);
template LogicalResult FunctionEmitter::emitAttention(rt::AttentionGradOp,
                                                      StringRef, ValueRange);

/// The place of a module in its program.
static int64_t placeOf(rt::ModuleOp module) {
  auto modules =
      module->getParentOfType<rt::ProgramOp>().getBody().getOps<rt::ModuleOp>();
  return std::distance(modules.begin(), llvm::find(modules, module));
}

LogicalResult FunctionEmitter::emitRoute(rt::RouteOp op) {
  SmallVector<cpp::Code> shape{cpp::field("rows", size(op.getRows())),
                               cpp::field("room", size(op.getRoom())),
                               cpp::field("count", op.getCount()),
                               cpp::field("placed", op.getPlaced())};
  if (op.getGroup() != 1)
    shape.push_back(cpp::field("group", op.getGroup()));
  if (op.getSlots())
    shape.push_back(cpp::field("slots", size(*op.getSlots())));
  int64_t module = placeOf(function->getParentOfType<rt::ModuleOp>());
  return libraryCall(
      "route",
      {op.getExperts(), op.getFirst(), op.getOrder(), op.getPlace(),
       op.getOffsets()},
      {cpp::list(shape),
       cpp::list({cpp::field("what", quoted(op.getOp())),
                  cpp::field("counts", "true"), cpp::field("module", module)}),
       "context.fault"});
}

LogicalResult FunctionEmitter::emitCheckIndices(rt::CheckIndicesOp op) {
  auto module = function->getParentOfType<rt::ModuleOp>();
  int64_t index = placeOf(module), symbol = -1;
  for (auto [i, known] :
       llvm::enumerate(module.getBody().getOps<rt::SymbolOp>()))
    if (op.getItem() && known.getSymName() == *op.getItem())
      symbol = i;
  SmallVector<cpp::Code> fields{
      cpp::field("what", quoted(op.getOp())),
      cpp::field("input", op.getInput() ? quoted(*op.getInput()) : "nullptr"),
      cpp::field("extent", size(op.getExtent()))};
  if (op.getWrap())
    fields.push_back(cpp::field("wrap", "true"));
  if (op.getIgnored()) {
    fields.push_back(cpp::field("ignores", "true"));
    fields.push_back(cpp::field("ignored", int64_t(*op.getIgnored())));
  }
  if (auto cuts = op.getBlock()) {
    std::string base = "0";
    for (size_t i = 0; i < cuts->size(); i += 3)
      base = cpp::sum(base,
                      cpp::product(placeOnAxis((*cuts)[i + 1], (*cuts)[i + 2]),
                                   (*cuts)[i]));
    fields.push_back(cpp::field("local", "true"));
    fields.push_back(cpp::field("base", base));
  }
  if (op.getOffset() != 0)
    fields.push_back(cpp::field("offset", op.getOffset()));
  fields.push_back(cpp::field("stride", op.getStride()));
  fields.push_back(cpp::field("row", size(op.getRow())));
  if (op.getPer())
    fields.push_back(cpp::field("per", size(*op.getPer())));
  fields.push_back(cpp::field("module", index));
  fields.push_back(cpp::field("symbol", symbol));
  std::string count =
      size(cast<rt::BufferType>(op.getIndices().getType()).getNumElements());
  return libraryCall("checkIndices", op.getIndices(),
                     {count, cpp::list(fields), "context.fault"});
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

LogicalResult FunctionEmitter::emitRankPlace(rt::RankPlaceOp op) {
  return libraryCall("fill", op.getBuffer(),
                     {placeOnAxis(op.getOver(), op.getStride()), 1});
}

LogicalResult FunctionEmitter::emitCollective(rt::CollectiveOp op) {
  nn::DimExpr block = op.getBlock(), chunk = block;
  SmallVector<cpp::Code> fields{cpp::field("kind", enumText(op.getKind()))};
  if (auto reduction = op.getReduction())
    fields.push_back(cpp::field("reduction", enumText(*reduction)));
  auto in = cast<rt::BufferType>(op.getIn().getType());
  fields.push_back(cpp::field("type", enumText(dtypeOf(in.getElementType()))));
  if (op.getChunk()) {
    chunk = *op.getChunk();
    // A chunk of 0 has no elements in any row.
    fields.push_back(
        cpp::field("outer", size(block.exactDiv(chunk).value_or(0))));
  }
  fields.push_back(cpp::field("chunk", size(chunk)));
  if (op.getPitch())
    fields.push_back(cpp::field("pitch", size(*op.getPitch())));
  fields.push_back(cpp::field("over", op.getOver()));
  fields.push_back(cpp::field("stride", op.getStride()));
  SmallVector<cpp::Code> arguments{"context.group", cpp::list(fields), "{}",
                                   "{}"};
  if (StringRef stream = owner.target.streamArgument(op.getStream());
      !stream.empty())
    arguments.push_back(stream);
  createCall(owner.b, owner.loc, {}, "dt::rt::collective", arguments,
             {value(op.getIn()), value(op.getOut())});
  return success();
}

LogicalResult FunctionEmitter::emitEvent(StringRef callee, Value event,
                                         rt::Stream stream) {
  StringRef argument = owner.target.streamArgument(stream);
  if (!argument.empty())
    createCall(owner.b, owner.loc, {}, callee,
               {owner.events.at(event), argument});
  return success();
}

} // namespace dt::codegen
