//===- LibraryCalls.cpp - Calls of runtime functions ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Products, convolutions, attention, checks of indices and collectives: how the
// attributes of an op become the arguments that runtime/ declares.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/FunctionEmitter.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace dt::codegen {

LogicalResult FunctionEmitter::libraryCall(StringRef callee, ValueRange buffers,
                                           ArrayRef<std::string> extra) {
  OpBuilder &b = owner.b;
  SmallVector<Value> operands;
  SmallVector<Attribute> args;
  auto literal = [&](StringRef text) {
    args.push_back(emitc::OpaqueAttr::get(b.getContext(), text));
  };
  for (Value buffer : buffers) {
    if (!buffer) {
      literal("nullptr");
      continue;
    }
    args.push_back(b.getIndexAttr(operands.size()));
    operands.push_back(value(buffer));
  }
  for (const std::string &text : extra)
    literal(text);
  if (StringRef stream = owner.target.streamArgument(rt::Stream::compute);
      !stream.empty())
    literal(stream);
  emitc::CallOpaqueOp::create(b, owner.loc, TypeRange(),
                              ("dt::rt::" + callee).str(), operands,
                              b.getArrayAttr(args));
  return success();
}

/// Whether a call's operands may be rounded to TF32.
static bool mayBeTF32(Operation *call) {
  auto first = cast<rt::BufferType>(call->getOperand(0).getType());
  return first.getElementType().isF32() &&
         call->getParentOfType<rt::ModuleOp>().getTf32();
}

LogicalResult FunctionEmitter::emitMatmul(rt::MatmulOp op) {
  SmallVector<std::string> fields;
  auto add = [&](StringRef name, const nn::DimExpr &dim, bool always = false) {
    std::string text = size(dim);
    if (always || text != "0")
      fields.push_back(("." + name + " = " + text).str());
  };
  add("batch", op.getBatch(), true);
  add("m", op.getM(), true);
  add("n", op.getN(), true);
  add("k", op.getK(), true);
  if (op.getTransA())
    fields.push_back(".transA = true");
  if (op.getTransB())
    fields.push_back(".transB = true");
  add("strideA", op.getStrideA());
  add("strideB", op.getStrideB());
  add("strideC", op.getStrideC());
  add("lda", op.getLda());
  add("ldb", op.getLdb());
  add("ldc", op.getLdc());
  if (mayBeTF32(op))
    fields.push_back(".tf32 = true");
  return libraryCall(
      "matmul", {op.getA(), op.getB(), op.getBias(), op.getC()},
      {"{" + llvm::join(fields, ", ") + "}", op.getAccumulate() ? "1" : "0"});
}

template <typename Range> static std::string braces(Range &&values) {
  SmallVector<std::string> texts;
  for (auto value : values)
    texts.push_back(std::to_string(value));
  return "{" + llvm::join(texts, ", ") + "}";
}

LogicalResult FunctionEmitter::emitConv(Operation *op, StringRef callee,
                                        ValueRange buffers) {
  auto number = [&](StringRef name) {
    return std::to_string(op->getAttrOfType<IntegerAttr>(name).getInt());
  };
  auto numbers = [&](StringRef name) {
    return braces(op->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef());
  };
  SmallVector<std::string> in;
  for (const nn::DimExpr &dim :
       op->getAttrOfType<nn::DimsAttr>("in").getShape())
    in.push_back(size(dim));
  std::string shape =
      "{.n = " + size(op->getAttrOfType<nn::DimAttr>("n").getSize()) +
      ", .c = " + number("c") + ", .o = " + number("o") +
      ", .groups = " + number("groups") +
      ", .dims = " + std::to_string(in.size()) + ", .in = {" +
      llvm::join(in, ", ") + "}, .kernel = " + numbers("kernel") +
      ", .stride = " + numbers("strides") +
      ", .dilation = " + numbers("dilations") +
      ", .padBegin = " + numbers("pad_begin") +
      ", .padEnd = " + numbers("pad_end") +
      (mayBeTF32(op) ? ", .tf32 = true}" : "}");
  SmallVector<std::string> extra = {shape};
  if (isa<rt::ConvDwOp>(op))
    extra.push_back(op->hasAttr("accumulate") ? "1" : "0");
  return libraryCall(callee, buffers, extra);
}

LogicalResult FunctionEmitter::emitAttention(Operation *op, StringRef callee,
                                             ValueRange buffers, Value mask) {
  SmallVector<std::string> fields;
  for (StringRef name : {"b", "t", "s", "h", "hk", "d", "dv"})
    fields.push_back(("." + name + " = " +
                      size(op->getAttrOfType<nn::DimAttr>(name).getSize()))
                         .str());
  auto strides = [&](StringRef attribute, ArrayRef<StringRef> names) {
    for (auto [dim, name] : llvm::zip(
             op->getAttrOfType<nn::DimsAttr>(attribute).getShape(), names))
      fields.push_back(("." + name + " = " + size(dim)).str());
  };
  strides("q_strides", {"qb", "qt", "qh"});
  strides("k_strides", {"kb", "ks", "kh"});
  strides("v_strides", {"vb", "vs", "vh"});
  strides("o_strides", {"ob", "ot", "oh"});
  auto scale = op->getAttrOfType<FloatAttr>("scale");
  fields.push_back(".scale = " + constantText(owner.b.getF32FloatAttr(
                                     scale.getValueAsDouble())));
  fields.push_back(op->hasAttr("causal") ? ".causal = true"
                                         : ".causal = false");
  auto emptyRow = op->getAttrOfType<rt::EmptyRowAttr>("empty_row");
  fields.push_back(".emptyRow = " + enumText(emptyRow.getValue()));
  if (mask) {
    Type element = cast<rt::BufferType>(mask.getType()).getElementType();
    StringRef kind = element.isF32()    ? "Additive"
                     : element.isBF16() ? "AdditiveNarrow"
                                        : "Boolean";
    fields.push_back((".mask = dt::rt::MaskKind::" + kind).str());
    strides("mask_strides", {"maskB", "maskH", "maskT", "maskS"});
  } else {
    fields.push_back(".mask = dt::rt::MaskKind::None");
  }
  for (auto [attribute, name] : {std::pair("dq_strides", "dqStrides"),
                                 {"dk_strides", "dkStrides"},
                                 {"dv_strides", "dvStrides"}})
    if (auto by = op->getAttrOfType<nn::DimsAttr>(attribute)) {
      SmallVector<std::string> each;
      for (const nn::DimExpr &dim : by.getShape())
        each.push_back(size(dim));
      fields.push_back("." + std::string(name) + " = {" +
                       llvm::join(each, ", ") + "}");
    }
  return libraryCall(callee, buffers, {"{" + llvm::join(fields, ", ") + "}"});
}

LogicalResult FunctionEmitter::emitCheckIndices(rt::CheckIndicesOp op) {
  auto module = function->getParentOfType<rt::ModuleOp>();
  auto modules =
      module->getParentOfType<rt::ProgramOp>().getBody().getOps<rt::ModuleOp>();
  int64_t index = std::distance(modules.begin(), llvm::find(modules, module)),
          symbol = -1;
  for (auto [i, known] :
       llvm::enumerate(module.getBody().getOps<rt::SymbolOp>()))
    if (op.getItem() && known.getSymName() == *op.getItem())
      symbol = i;
  SmallVector<std::string> fields{".what = " + quoted(op.getOp()),
                                  ".input = " + (op.getInput()
                                                     ? quoted(*op.getInput())
                                                     : std::string("nullptr")),
                                  ".extent = " + size(op.getExtent())};
  if (op.getWrap())
    fields.push_back(".wrap = true");
  if (op.getIgnored())
    fields.push_back(".ignores = true, .ignored = " +
                     std::to_string(int64_t(*op.getIgnored())));
  if (auto cuts = op.getBlock()) {
    std::string base;
    for (size_t i = 0; i < cuts->size(); i += 3)
      base += (i ? " + " : "") + ("dt::rt::placeOnAxis(context.group, " +
                                  std::to_string((*cuts)[i + 1]) + ", " +
                                  std::to_string((*cuts)[i + 2]) + ") * " +
                                  std::to_string((*cuts)[i]));
    fields.push_back(".local = true, .base = " + base);
  }
  if (op.getOffset() != 0)
    fields.push_back(".offset = " + std::to_string(op.getOffset()));
  fields.push_back(".stride = " + std::to_string(op.getStride()));
  fields.push_back(".row = " + size(op.getRow()));
  if (op.getPer())
    fields.push_back(".per = " + size(*op.getPer()));
  fields.push_back(".module = " + std::to_string(index) +
                   ", .symbol = " + std::to_string(symbol));
  std::string count =
      size(cast<rt::BufferType>(op.getIndices().getType()).getNumElements());
  return libraryCall(
      "checkIndices", op.getIndices(),
      {count, "{" + llvm::join(fields, ", ") + "}", "context.fault"});
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

LogicalResult FunctionEmitter::emitRankPlace(rt::RankPlaceOp op) {
  return libraryCall("fill", op.getBuffer(),
                     {"dt::rt::placeOnAxis(context.group, " +
                          std::to_string(op.getOver()) + ", " +
                          std::to_string(op.getStride()) + ")",
                      "1"});
}

LogicalResult FunctionEmitter::emitCollective(rt::CollectiveOp op) {
  OpBuilder &b = owner.b;
  nn::DimExpr block = op.getBlock(), chunk = block;
  SmallVector<std::string> fields{".kind = " + enumText(op.getKind())};
  if (auto reduction = op.getReduction())
    fields.push_back(".reduction = " + enumText(*reduction));
  fields.push_back(
      ".type = " +
      enumText(dtypeOf(
          cast<rt::BufferType>(op.getIn().getType()).getElementType())));
  if (op.getChunk()) {
    chunk = *op.getChunk();
    // A chunk of 0 has no elements in any row.
    fields.push_back(".outer = " + size(block.exactDiv(chunk).value_or(0)));
  }
  fields.push_back(".chunk = " + size(chunk));
  if (op.getPitch())
    fields.push_back(".pitch = " + size(*op.getPitch()));
  fields.push_back(".over = " + std::to_string(op.getOver()));
  fields.push_back(".stride = " + std::to_string(op.getStride()));
  auto literal = [&](StringRef text) -> Attribute {
    return emitc::OpaqueAttr::get(b.getContext(), text);
  };
  SmallVector<Attribute> arguments{
      literal("context.group"), literal("{" + llvm::join(fields, ", ") + "}"),
      b.getIndexAttr(0), b.getIndexAttr(1)};
  if (StringRef stream = owner.target.streamArgument(op.getStream());
      !stream.empty())
    arguments.push_back(literal(stream));
  emitc::CallOpaqueOp::create(b, owner.loc, TypeRange(), "dt::rt::collective",
                              ValueRange{value(op.getIn()), value(op.getOut())},
                              b.getArrayAttr(arguments));
  return success();
}

LogicalResult FunctionEmitter::emitEvent(StringRef call, Value event,
                                         rt::Stream stream) {
  StringRef argument = owner.target.streamArgument(stream);
  if (!argument.empty())
    owner.line(
        (call + "(" + Twine(owner.events.at(event)) + ", " + argument + ");")
            .str());
  return success();
}

} // namespace dt::codegen
