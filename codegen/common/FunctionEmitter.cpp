//===- FunctionEmitter.cpp - one rt.func as a struct with run() -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Buffers that are fields print through emitc.get_field, which EmitC prints as
// the bare name; addresses inside them ("q + 64 * size.batch") are literals:
// of an expression that is an argument EmitC would make a variable.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/FunctionEmitter.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace dt::codegen {

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
  return dimText(dim, "size.");
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
  owner.field(
      "context",
      owner.opaque(cpp::words(
          {"const", cpp::reference(camel(owner.names.type, "Context"))})),
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
    std::string shape = shapeText(buffer.getShape());
    owner.field(names[i], fieldTypes[argument],
                access == "in"
                    ? shape
                    : cpp::words({shape, access == "out" ? "out" : "in, out"}));
    plainNames[argument] = texts[argument] = names[i];
  }
  owner.field("scratch", emitc::PointerType::get(owner.opaque("std::byte")),
              cpp::words({function.getScratchBytes().value_or(0), "bytes"}));
  for (auto local : function.getBody().getOps<rt::AllocOp>()) {
    if (!local.getOffset())
      return local.emitOpError("has no offset: memory is not planned yet");
    Type element = local.getType().getElementType();
    if (cTypeName(element).empty())
      return local.emitOpError() << "has elements of type " << element
                                 << ", which has no C++ type here";
    std::string name = fields.unique(local.getName().value_or("local"));
    std::string init = cpp::castTo("reinterpret_cast", cTypeName(element),
                                   cpp::sum("scratch", *local.getOffset()));
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
  owner.openClass(type, {cpp::symbol(function.getSymName())});
  if (failed(emitFields()))
    return failure();
  owner.openFunction("run", b.getFunctionType({}, {}));
  auto shorten = [&](StringRef name) {
    owner.line(cpp::constant("auto &", name, cpp::member("context", name)));
  };
  shorten("size");
  bool usesParameters = !function.getBody().getOps<rt::ParameterOp>().empty();
  bool usesGradients = !function.getBody().getOps<rt::GradientOp>().empty();
  if (usesParameters)
    shorten("parameters");
  if (usesGradients)
    shorten("gradients");
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
  for (Value buffer : operands.values)
    names.push_back(plainNames.lookup(buffer));
  FailureOr<std::string> callee =
      owner.kernelFunction(kernel, operands, function.getSymName(), names);
  if (failed(callee))
    return failure();
  Call launch = owner.target.launch(kernel, *callee);
  SmallVector<Value> buffers;
  for (auto [buffer, written] : llvm::zip(operands.values, operands.written)) {
    nn::DimExpr count = cast<rt::BufferType>(buffer.getType()).getNumElements();
    if (written && owner.target.launches()) {
      launch.arguments.push_back(
          owner.target.writtenArgument(text(buffer), size(count)));
    } else {
      launch.arguments.push_back("{}");
      buffers.push_back(value(buffer));
    }
  }
  for (const std::string &symbol : kernelSymbols(kernel))
    launch.arguments.push_back(cpp::member("size", identifier(symbol)));
  createCall(owner.b, owner.loc, {}, launch.callee, launch.arguments, buffers,
             launch.templates);
  return success();
}

LogicalResult FunctionEmitter::emitCall(rt::CallOp call) {
  rt::FuncOp callee = SymbolTable::lookupNearestSymbolFrom<rt::FuncOp>(
      call, call.getCalleeAttr());
  if (!call.getScratch() && callee.getScratchBytes().value_or(0) > 0)
    return call.emitOpError("gives no scratch to a function that needs some");
  NameScope scope;
  SmallVector<cpp::Code> fields{cpp::field("context", "context")};
  for (auto [name, argument] :
       llvm::zip(argumentNames(callee, scope), call.getArguments()))
    fields.push_back(cpp::field(name, text(argument)));
  fields.push_back(
      cpp::field("scratch", call.getScratch()
                                ? cpp::castTo("reinterpret_cast", "std::byte",
                                              text(call.getScratch()))
                                : "nullptr"));
  std::string type = owner.functionTypes[callee.getSymName()];
  owner.line(
      cpp::statement(cpp::member(cpp::construct(type, fields, 8), "run()")));
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
        texts[view] = cpp::sum(source, offset);
        plainNames[view] = plainNames.lookup(view.getSource());
        if (offset == "0" && fieldTypes.count(view.getSource()))
          fieldTypes[view] = fieldTypes.lookup(view.getSource());
        return success();
      })
      .Case<rt::ParameterOp, rt::GradientOp>([&](Operation *o) {
        StringRef symbol = rt::getJoined(o).front();
        auto known = owner.names.parameters.find(symbol);
        if (known == owner.names.parameters.end())
          return LogicalResult(o->emitOpError()
                               << "names no parameter of the module: @"
                               << symbol);
        bool gradient = isa<rt::GradientOp>(o);
        plainNames[o->getResult(0)] =
            gradient ? snake(known->second, "gradient") : known->second;
        texts[o->getResult(0)] =
            cpp::member(gradient ? "gradients" : "parameters", known->second);
        return success();
      })
      .Case<rt::SeedOp>([&](rt::SeedOp seed) {
        auto program = seed->getParentOfType<rt::ProgramOp>();
        int64_t index = 0;
        for (auto loss : program.getBody().getOps<rt::LossOp>()) {
          if (loss.getSymName() == seed.getLoss())
            return libraryCall("copy", seed.getBuffer(),
                               {cpp::sum("context.seeds", index), 1});
          ++index;
        }
        return LogicalResult(seed.emitOpError()
                             << "names no rt.loss: @" << seed.getLoss());
      })
      .Case<rt::GradientsReadyOp>([&](rt::GradientsReadyOp ready) {
        createCall(owner.b, owner.loc, {}, "dt::rt::gradientsReady",
                   {"context.listener", ready.getBegin(), ready.getEnd()});
        return success();
      })
      .Case<rt::FillOp>([&](rt::FillOp fill) {
        Type element =
            cast<rt::BufferType>(fill.getBuffer().getType()).getElementType();
        return libraryCall(
            "fill", fill.getBuffer(),
            {cpp::call(cTypeName(element), {constantText(fill.getValue())}),
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
      .Case<rt::LimitChoicesOp>([&](rt::LimitChoicesOp limit) {
        return libraryCall(
            "limitChoices",
            {limit.getExperts(), limit.getSegments(), limit.getKept()},
            {size(limit.getSamples()), size(limit.getChoices()),
             limit.getEach(), limit.getCount(), limit.getMost(),
             constantText(limit.getCapacityAttr())});
      })
      .Case<rt::RouteOp>([&](rt::RouteOp route) { return emitRoute(route); })
      .Case<rt::GroupedMatmulOp>([&](rt::GroupedMatmulOp grouped) {
        return libraryCall("groupedMatmul",
                           {grouped.getA(), grouped.getB(),
                            grouped.getOffsets(), grouped.getBias(),
                            grouped.getC()},
                           {groupedShape(grouped, grouped.getTransB())});
      })
      .Case<rt::GroupedMatmulDwOp>([&](rt::GroupedMatmulDwOp grouped) {
        return libraryCall(
            "groupedMatmulDw",
            {grouped.getA(), grouped.getB(), grouped.getOffsets(),
             grouped.getC()},
            {groupedShape(grouped, false), grouped.getAccumulate() ? 1 : 0});
      })
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
        return emitAttention(a, "attentionForward", {a.getO(), a.getLse()});
      })
      .Case<rt::AttentionGradOp>([&](rt::AttentionGradOp a) {
        return emitAttention(a, "attentionBackward",
                             {a.getO(), a.getLse(), a.getDout(), a.getDq(),
                              a.getDk(), a.getDv_()});
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
