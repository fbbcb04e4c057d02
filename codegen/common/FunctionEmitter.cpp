//===- FunctionEmitter.cpp - one rt.func as a struct with run() -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Buffers that are fields print through emitc.get_field, which EmitC prints as
// the bare name; addresses inside them ("q + 64 * size.batch") are literals.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/FunctionEmitter.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace dt::codegen {

static const char *const kSizePrefix = "size.";

SmallVector<std::string> argumentNames(rt::FuncOp function, NameScope &scope) {
  for (StringRef name :
       {"context", "scratch", "run", "size", "parameters", "gradients"})
    scope.reserve(name);
  SmallVector<std::string> names;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto name = function.getArgAttrOfType<StringAttr>(i, rt::RTDialect::kName);
    names.push_back(
        scope.unique(name ? name.getValue() : StringRef("argument")));
  }
  return names;
}

std::string FunctionEmitter::size(StringAttr dim) {
  return size(rt::getDim(dim));
}
std::string FunctionEmitter::size(const nn::DimExpr &dim) {
  return dimText(dim, kSizePrefix);
}

Value FunctionEmitter::value(Value buffer) {
  if (auto field = fieldTypes.find(buffer); field != fieldTypes.end())
    return emitc::GetFieldOp::create(owner.b, owner.loc, field->second,
                                     text(buffer));
  Type element = cast<rt::BufferType>(buffer.getType()).getElementType();
  return emitc::LiteralOp::create(owner.b, owner.loc,
                                  owner.pointer(element, false), text(buffer));
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

LogicalResult FunctionEmitter::emitFields() {
  OpBuilder &b = owner.b;
  owner.field("context", owner.opaque("const " + owner.names.type + "Context&"),
              "");
  SmallVector<std::string> names = argumentNames(function, fields);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    BlockArgument argument = function.getArgument(i);
    auto buffer = cast<rt::BufferType>(argument.getType());
    StringRef access = function.getAccess(i);
    if (cTypeName(buffer.getElementType()).empty())
      return function.emitOpError()
             << "argument " << i << " has elements of type "
             << buffer.getElementType() << ", which has no C++ type here";
    fieldTypes[argument] =
        owner.pointer(buffer.getElementType(), access == "in");
    owner.field(names[i], fieldTypes[argument],
                shapeText(buffer.getShape()) + (access == "in" ? ""
                                                : access == "out"
                                                    ? " out"
                                                    : " in, out"));
    plainNames[argument] = texts[argument] = names[i];
  }
  owner.field("scratch", emitc::PointerType::get(owner.opaque("std::byte")),
              std::to_string(function.getScratchBytes().value_or(0)) +
                  " bytes");
  for (auto local : function.getBody().getOps<rt::AllocOp>()) {
    if (!local.getOffset())
      return local.emitOpError("has no offset: memory is not planned yet");
    Type element = local.getType().getElementType();
    if (cTypeName(element).empty())
      return local.emitOpError() << "has elements of type " << element
                                 << ", which has no C++ type here";
    std::string name = fields.unique(local.getName().value_or("local"));
    std::string init = ("reinterpret_cast<" + cTypeName(element) +
                        " *>(scratch + " + Twine(*local.getOffset()) + ")")
                           .str();
    fieldTypes[local] = owner.pointer(element, false);
    owner.field(name, fieldTypes[local], shapeText(local.getType().getShape()),
                init);
    plainNames[local] = texts[local] = name;
  }
  (void)b;
  return success();
}

LogicalResult FunctionEmitter::emit() {
  OpBuilder &b = owner.b;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&owner.functions.getBodyRegion().front());
  // Tables come before the class that names them.
  for (auto constant : function.getBody().getOps<rt::ConstantOp>()) {
    if (!isa<DenseElementsAttr>(constant.getValue()) ||
        cTypeName(constant.getType().getElementType()).empty())
      return constant.emitOpError(
          "has elements for which there is no C++ form here");
    texts[constant] =
        owner.target.constantAddress(owner.constantTable(constant));
    plainNames[constant] = "table";
  }
  owner.openClass(type, ("@" + function.getSymName()).str());
  if (failed(emitFields()))
    return failure();
  owner.openFunction("run", b.getFunctionType({}, {}));
  owner.line("const auto &size = context.size;");
  bool usesParameters = !function.getBody().getOps<rt::ParameterOp>().empty();
  bool usesGradients = !function.getBody().getOps<rt::GradientOp>().empty();
  if (usesParameters)
    owner.line("const auto &parameters = context.parameters;");
  if (usesGradients)
    owner.line("const auto &gradients = context.gradients;");
  owner.line("(void)size;");
  for (Operation &op : function.getBody().front())
    if (failed(emitOp(&op)))
      return failure();
  emitc::ReturnOp::create(b, owner.loc, Value());
  return success();
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

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
  if (!owner.target.lastCallArgument().empty())
    literal(owner.target.lastCallArgument());
  emitc::CallOpaqueOp::create(b, owner.loc, TypeRange(),
                              ("dt::rt::" + callee).str(), operands,
                              b.getArrayAttr(args));
  return success();
}

LogicalResult FunctionEmitter::emitKernelCall(rt::KernelOp kernel) {
  KernelOperands operands(kernel, bytes);
  SmallVector<std::string> names;
  SmallVector<Value> arguments;
  for (Value buffer : operands.values) {
    names.push_back(plainNames.lookup(buffer));
    arguments.push_back(value(buffer));
  }
  FailureOr<std::string> callee =
      owner.kernelFunction(kernel, operands, function.getSymName(), names);
  if (failed(callee))
    return failure();
  OpBuilder &b = owner.b;
  std::string launch = owner.target.launch(kernel, *callee);
  for (const std::string &symbol : kernelSymbols(kernel))
    arguments.push_back(emitc::LiteralOp::create(
        b, owner.loc, b.getI64Type(), kSizePrefix + identifier(symbol)));
  if (launch.empty()) {
    emitc::CallOpaqueOp::create(b, owner.loc, TypeRange(), *callee, arguments);
    return success();
  }
  SmallVector<StringRef> places(arguments.size(), "{}");
  owner.line(launch + ", " + llvm::join(places, ", ") + ");", arguments);
  return success();
}

LogicalResult FunctionEmitter::emitCall(rt::CallOp call) {
  rt::FuncOp callee = SymbolTable::lookupNearestSymbolFrom<rt::FuncOp>(
      call, call.getCalleeAttr());
  NameScope scope;
  SmallVector<std::string> names = argumentNames(callee, scope);
  std::string text =
      owner.functionTypes[callee.getSymName()] + "{{.context = context";
  SmallVector<Value> arguments;
  for (auto [name, argument] : llvm::zip(names, call.getArguments())) {
    text += ",\n        ." + name + " = {}";
    arguments.push_back(value(argument));
  }
  if (call.getScratch()) {
    text += ",\n        .scratch = reinterpret_cast<std::byte *>({})";
    arguments.push_back(value(call.getScratch()));
  } else {
    text += ",\n        .scratch = nullptr";
    if (callee.getScratchBytes().value_or(0) > 0)
      return call.emitOpError("gives no scratch to a function that needs some");
  }
  if (arguments.empty()) // then braces are not placeholders
    text.replace(text.find("{{"), 2, "{");
  owner.line(text + "}.run();", arguments);
  return success();
}

LogicalResult FunctionEmitter::emitMatmul(rt::MatmulOp op) {
  SmallVector<std::string> fields;
  auto add = [&](StringRef name, StringAttr dim, bool always = false) {
    std::string text = size(dim);
    if (always || text != "0")
      fields.push_back(("." + name + " = " + text).str());
  };
  add("batch", op.getBatchAttr(), true);
  add("m", op.getMAttr(), true);
  add("n", op.getNAttr(), true);
  add("k", op.getKAttr(), true);
  if (op.getTransA())
    fields.push_back(".transA = true");
  if (op.getTransB())
    fields.push_back(".transB = true");
  add("strideA", op.getStrideAAttr());
  add("strideB", op.getStrideBAttr());
  add("strideC", op.getStrideCAttr());
  add("lda", op.getLdaAttr());
  add("ldb", op.getLdbAttr());
  add("ldc", op.getLdcAttr());
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
  for (StringAttr dim :
       op->getAttrOfType<ArrayAttr>("in").getAsRange<StringAttr>())
    in.push_back(size(dim));
  std::string shape = "{.n = " + size(op->getAttrOfType<StringAttr>("n")) +
                      ", .c = " + number("c") + ", .o = " + number("o") +
                      ", .groups = " + number("groups") +
                      ", .dims = " + std::to_string(in.size()) + ", .in = {" +
                      llvm::join(in, ", ") +
                      "}, .kernel = " + numbers("kernel") +
                      ", .stride = " + numbers("strides") +
                      ", .dilation = " + numbers("dilations") +
                      ", .padBegin = " + numbers("pad_begin") +
                      ", .padEnd = " + numbers("pad_end") + "}";
  SmallVector<std::string> extra = {shape};
  if (isa<rt::ConvDwOp>(op))
    extra.push_back(op->hasAttr("accumulate") ? "1" : "0");
  return libraryCall(callee, buffers, extra);
}

LogicalResult FunctionEmitter::emitAttention(Operation *op, StringRef callee,
                                             ValueRange buffers, Value mask) {
  SmallVector<std::string> fields;
  for (StringRef name : {"b", "t", "s", "h", "hk", "d", "dv"})
    fields.push_back(
        ("." + name + " = " + size(op->getAttrOfType<StringAttr>(name))).str());
  auto strides = [&](StringRef attribute, ArrayRef<StringRef> names) {
    for (auto [dim, name] : llvm::zip(
             op->getAttrOfType<ArrayAttr>(attribute).getAsRange<StringAttr>(),
             names))
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
  static constexpr StringRef emptyRows[] = {"Mean", "Zero", "NaN"};
  auto emptyRow = op->getAttrOfType<rt::EmptyRowAttr>("empty_row").getValue();
  fields.push_back((".emptyRow = dt::rt::EmptyRow::" +
                    emptyRows[static_cast<uint32_t>(emptyRow)])
                       .str());
  if (mask) {
    Type element = cast<rt::BufferType>(mask.getType()).getElementType();
    fields.push_back(element.isF32() ? ".mask = dt::rt::MaskKind::Additive"
                                     : ".mask = dt::rt::MaskKind::Boolean");
    strides("mask_strides", {"maskB", "maskH", "maskT", "maskS"});
  } else {
    fields.push_back(".mask = dt::rt::MaskKind::None");
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
                                  ".extent = " + size(op.getExtentAttr())};
  if (op.getWrap())
    fields.push_back(".wrap = true");
  if (op.getIgnored())
    fields.push_back(".ignores = true, .ignored = " +
                     std::to_string(int64_t(*op.getIgnored())));
  if (auto block = op.getBlock())
    fields.push_back(
        ".local = true, .base = dt::rt::placeOnAxis(context.group, " +
        std::to_string((*block)[1]) + ", " + std::to_string((*block)[2]) +
        ") * " + std::to_string((*block)[0]));
  if (op.getOffset() != 0)
    fields.push_back(".offset = " + std::to_string(op.getOffset()));
  fields.push_back(".stride = " + std::to_string(op.getStride()));
  fields.push_back(".row = " + size(op.getRowAttr()));
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

static std::string axisText(Operation *op) {
  auto number = [&](StringRef name) {
    return std::to_string(op->getAttrOfType<IntegerAttr>(name).getInt());
  };
  return number("over") + ", " + number("stride");
}

LogicalResult FunctionEmitter::emitRankPlace(rt::RankPlaceOp op) {
  return libraryCall(
      "fill", op.getBuffer(),
      {"dt::rt::placeOnAxis(context.group, " + axisText(op) + ")", "1"});
}

LogicalResult FunctionEmitter::emitCollective(Operation *op, StringRef callee,
                                              StringRef before,
                                              ArrayRef<std::string> sizes) {
  OpBuilder &b = owner.b;
  SmallVector<Attribute> args;
  auto literal = [&](StringRef text) {
    args.push_back(emitc::OpaqueAttr::get(b.getContext(), text));
  };
  literal("context.group");
  if (!before.empty())
    literal(before);
  literal(dtypeText(
      cast<rt::BufferType>(op->getOperand(0).getType()).getElementType()));
  args.push_back(b.getIndexAttr(0));
  args.push_back(b.getIndexAttr(1));
  for (const std::string &text : sizes)
    literal(text);
  literal(axisText(op));
  emitc::CallOpaqueOp::create(
      b, owner.loc, TypeRange(), ("dt::rt::" + callee).str(),
      ValueRange{value(op->getOperand(0)), value(op->getOperand(1))},
      b.getArrayAttr(args));
  return success();
}

LogicalResult FunctionEmitter::emitParts(Operation *op, StringRef callee,
                                         Value part) {
  nn::DimExpr chunk = rt::getDim(op->getAttrOfType<StringAttr>("chunk"));
  nn::DimExpr count = cast<rt::BufferType>(part.getType()).getNumElements();
  nn::DimExpr outer = count.exactDiv(chunk).value_or(
      0); // a chunk of 0 has no elements in any row
  return emitCollective(op, callee, "", {size(outer), size(chunk)});
}

LogicalResult FunctionEmitter::emitOp(Operation *op) {
  auto elements = [](Value buffer) {
    return cast<rt::BufferType>(buffer.getType()).getNumElements();
  };
  auto count = [&](Value buffer) { return size(elements(buffer)); };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<rt::AllocOp, rt::ConstantOp>([](Operation *) { return success(); })
      .Case<rt::ViewOp>([&](rt::ViewOp view) {
        std::string offset = size(view.getOffsetAttr()),
                    source = text(view.getSource());
        texts[view] = offset == "0" ? source : source + " + " + offset;
        plainNames[view] = plainNames.lookup(view.getSource());
        if (offset == "0" && fieldTypes.count(view.getSource()))
          fieldTypes[view] = fieldTypes.lookup(view.getSource());
        return success();
      })
      .Case<rt::ParameterOp, rt::GradientOp>([&](Operation *o) {
        auto symbol =
            o->getAttrOfType<FlatSymbolRefAttr>("parameter").getValue();
        auto known = owner.names.parameters.find(symbol);
        if (known == owner.names.parameters.end())
          return LogicalResult(o->emitOpError()
                               << "names no parameter of the module: @"
                               << symbol);
        bool gradient = isa<rt::GradientOp>(o);
        plainNames[o->getResult(0)] =
            gradient ? known->second + "_gradient" : known->second;
        texts[o->getResult(0)] =
            (gradient ? "gradients." : "parameters.") + known->second;
        return success();
      })
      .Case<rt::SeedOp>([&](rt::SeedOp seed) {
        auto program = seed->getParentOfType<rt::ProgramOp>();
        int64_t index = 0;
        for (auto loss : program.getBody().getOps<rt::LossOp>()) {
          if (loss.getSymName() == seed.getLoss())
            return libraryCall(
                "fill", seed.getBuffer(),
                {"context.seeds[" + std::to_string(index) + "]", "1"});
          ++index;
        }
        return LogicalResult(seed.emitOpError()
                             << "names no rt.loss: @" << seed.getLoss());
      })
      .Case<rt::GradientsReadyOp>([&](rt::GradientsReadyOp ready) {
        owner.line("dt::rt::gradientsReady(context.listener, " +
                   std::to_string(ready.getBegin()) + ", " +
                   std::to_string(ready.getEnd()) + ");");
        return success();
      })
      .Case<rt::FillOp>([&](rt::FillOp fill) {
        Type element =
            cast<rt::BufferType>(fill.getBuffer().getType()).getElementType();
        return libraryCall(
            "fill", fill.getBuffer(),
            {(cTypeName(element) + "(" + constantText(fill.getValue()) + ")")
                 .str(),
             count(fill.getBuffer())});
      })
      .Case<rt::CopyOp>([&](rt::CopyOp copy) {
        return libraryCall("copy", {copy.getTarget(), copy.getSource()},
                           {count(copy.getSource())});
      })
      .Case<rt::CheckIndicesOp>(
          [&](rt::CheckIndicesOp check) { return emitCheckIndices(check); })
      .Case<rt::KernelOp>(
          [&](rt::KernelOp kernel) { return emitKernelCall(kernel); })
      .Case<rt::CallOp>([&](rt::CallOp call) { return emitCall(call); })
      .Case<rt::MatmulOp>(
          [&](rt::MatmulOp matmul) { return emitMatmul(matmul); })
      .Case<rt::ConvOp>([&](rt::ConvOp conv) {
        return emitConv(
            conv, "convForward",
            {conv.getX(), conv.getW(), conv.getBias(), conv.getY()});
      })
      .Case<rt::ConvDxOp>([&](rt::ConvDxOp conv) {
        return emitConv(
            conv, "convBackwardData",
            {conv.getDy(), conv.getW(), conv.getBias(), conv.getDx()});
      })
      .Case<rt::ConvDwOp>([&](rt::ConvDwOp conv) {
        return emitConv(
            conv, "convBackwardWeights",
            {conv.getX(), conv.getDy(), conv.getDw(), conv.getDb()});
      })
      .Case<rt::AttentionOp>([&](rt::AttentionOp a) {
        return emitAttention(
            a, "attentionForward",
            {a.getQ(), a.getK(), a.getV(), a.getMask(), a.getO(), a.getLse()},
            a.getMask());
      })
      .Case<rt::AttentionGradOp>([&](rt::AttentionGradOp a) {
        return emitAttention(a, "attentionBackward",
                             {a.getQ(), a.getK(), a.getV(), a.getMask(),
                              a.getO(), a.getLse(), a.getDout(), a.getDq(),
                              a.getDk(), a.getDv_()},
                             a.getMask());
      })
      .Case<rt::RankPlaceOp>(
          [&](rt::RankPlaceOp place) { return emitRankPlace(place); })
      .Case<rt::AllReduceOp>([&](rt::AllReduceOp reduce) {
        std::string kind = rt::stringifyReduction(reduce.getKind()).str();
        kind[0] = llvm::toUpper(kind[0]);
        return emitCollective(reduce, "allReduce", "dt::rt::Reduction::" + kind,
                              count(reduce.getIn()));
      })
      .Case<rt::AllGatherOp>([&](rt::AllGatherOp gather) {
        return emitParts(gather, "allGather", gather.getIn());
      })
      .Case<rt::ReduceScatterOp>([&](rt::ReduceScatterOp scatter) {
        return emitParts(scatter, "reduceScatter", scatter.getOut());
      })
      .Case<rt::AllToAllOp>([&](rt::AllToAllOp op) {
        nn::DimExpr block = *elements(op.getIn()).exactDiv(op.getOver());
        return emitCollective(op, "allToAll", "", size(block));
      })
      .Default([](Operation *o) {
        return o->emitOpError("cannot be emitted as C++");
      });
}

//===----------------------------------------------------------------------===//
// All functions of a module
//===----------------------------------------------------------------------===//

LogicalResult ModuleEmitter::emitFunctions() {
  // Callees first; IR that came through the verifier has no recursion,
  // hand-written IR may.
  llvm::StringMap<int> state;
  std::function<LogicalResult(rt::FuncOp)> visit =
      [&](rt::FuncOp function) -> LogicalResult {
    int &mine = state[function.getSymName()];
    if (mine == 2)
      return success();
    if (mine == 1)
      return function.emitOpError("calls itself");
    mine = 1;
    for (auto call : function.getBody().getOps<rt::CallOp>()) {
      auto callee = SymbolTable::lookupNearestSymbolFrom<rt::FuncOp>(
          call, call.getCalleeAttr());
      if (failed(visit(callee)))
        return failure();
    }
    std::string type =
        scope.unique(names.type + typeIdentifier(function.getSymName()));
    functionTypes[function.getSymName()] = type;
    if (failed(FunctionEmitter(*this, function, type).emit()))
      return failure();
    state[function.getSymName()] = 2;
    return success();
  };
  for (auto function : module.getBody().getOps<rt::FuncOp>())
    if (failed(visit(function)))
      return failure();
  return success();
}

LogicalResult ModuleEmitter::emitStage(rt::StageOp stage) {
  OpBuilder::InsertionGuard guard(b);
  rt::FuncOp callee = SymbolTable::lookupNearestSymbolFrom<rt::FuncOp>(
      stage, stage.getCalleeAttr());
  StringRef kind = rt::stringifyStageKind(stage.getKind());
  std::string name = scope.unique(
      (names.module + "." +
       (stage.getKind() == rt::StageKind::denominator ? stage.getCallee()
                                                      : kind))
          .str());
  names.stages[(kind + "@" + stage.getCallee()).str()] = name;
  FunctionType type =
      b.getFunctionType(opaque("const dt::rt::TaskContext&"), {});

  b.setInsertionPointToEnd(&header.getBodyRegion().front());
  line("void " + name + "(const dt::rt::TaskContext &task);");

  b.setInsertionPointToEnd(&functions.getBodyRegion().front());
  line("");
  openFunction(name, type);
  Value task = b.getInsertionBlock()->getArgument(0);
  line("const " + names.type + "Context context = " + names.module +
           "_context({});",
       task);
  NameScope local;
  SmallVector<std::string> fields = argumentNames(callee, local);
  std::string call = functionTypes[callee.getSymName()] + "{.context = context";
  for (auto [field, symbol] :
       llvm::zip(fields, stage.getBuffers().getAsRange<FlatSymbolRefAttr>()))
    call += ",\n      ." + field + " = context.arena." +
            names.buffers[symbol.getValue()];
  line(call + ",\n      .scratch = context.scratch}.run();");
  emitc::ReturnOp::create(b, loc, Value());
  return success();
}

} // namespace dt::codegen
