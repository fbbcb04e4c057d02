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
  SmallVector<std::string> places(arguments.size(), "{}");
  for (auto [i, buffer] : llvm::enumerate(operands.values))
    if (operands.written[i])
      places[i] = owner.target.writtenArgument(
          size(cast<rt::BufferType>(buffer.getType()).getNumElements()));
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

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

LogicalResult FunctionEmitter::emitOp(Operation *op) {
  auto elements = [](Value buffer) {
    return cast<rt::BufferType>(buffer.getType()).getNumElements();
  };
  auto count = [&](Value buffer) { return size(elements(buffer)); };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<rt::AllocOp, rt::ConstantOp>([](Operation *) { return success(); })
      .Case<rt::ViewOp>([&](rt::ViewOp view) {
        std::string offset = size(view.getOffset()),
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
                "copy", seed.getBuffer(),
                {"context.seeds + " + std::to_string(index), "1"});
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
      .Case<rt::CollectiveOp>([&](rt::CollectiveOp collective) {
        return emitCollective(collective);
      })
      .Case<rt::RecordOp>([&](rt::RecordOp record) {
        owner.events.try_emplace(record, owner.events.size());
        return emitEvent("dt::rt::recordEvent", record, record.getStream());
      })
      .Case<rt::WaitOp>([&](rt::WaitOp wait) {
        return emitEvent("dt::rt::waitForEvent", wait.getEvent(),
                         wait.getStream());
      })
      .Default([](Operation *o) {
        return o->emitOpError("cannot be emitted as C++");
      });
}

} // namespace dt::codegen
