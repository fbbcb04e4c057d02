//===- FunctionLowering.cpp - One function from nn to rt --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/lower/FunctionLowering.h"

#include "dialects/nn/NNColumns.h"
#include "dialects/nn/NNNames.h"
#include "dialects/rt/RTBytes.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

#include "passes/lower/LowerInterfaces.cpp.inc"

namespace {
bool isParamGrad(func::FuncOp function, unsigned result) {
  return bool(function.getResultAttr(result, nn::kParamGradAttr));
}

rt::BufferType bufferOf(Type tensor) {
  return rt::BufferType::get(cast<RankedTensorType>(tensor));
}
} // namespace

std::string dt::lower::describe(Operation *op) {
  if (auto fused = dyn_cast<nn::FusedOp>(op); fused && fused.getKernel())
    return fused.getKernel()->str();
  return op->getName().stripDialect().str();
}

//===----------------------------------------------------------------------===//
// Signature
//===----------------------------------------------------------------------===//

/// The seed of a loss comes from the task, not from the caller.
static StringAttr seedOf(func::FuncOp function, unsigned argument) {
  auto gradient =
      function.getArgAttrOfType<nn::GradientAttr>(argument, nn::kGradientAttr);
  return gradient ? gradient.getLoss() : StringAttr();
}

FunctionType FunctionLowering::makeType() {
  SmallVector<Type> inputs;
  for (unsigned i = 0; i < source.getNumArguments(); ++i)
    if (!seedOf(source, i))
      inputs.push_back(bufferOf(source.getArgumentTypes()[i]));
  for (Type t : source.getResultTypes())
    inputs.push_back(bufferOf(t));
  return FunctionType::get(source.getContext(), inputs, {});
}

Value FunctionLowering::outArgument(unsigned result) {
  return target.getArgument(target.getNumArguments() - source.getNumResults() +
                            result);
}

/// What the program's tables are made from stays on the arguments.
static void copyAttributes(rt::FuncOp target, unsigned argument,
                           DictionaryAttr from, StringRef access) {
  MLIRContext *context = target.getContext();
  if (from)
    for (NamedAttribute attribute : from) {
      bool isName = attribute.getName() == nn::kNameAttr;
      if (attribute.getName() != nn::kParamGradAttr)
        target.setArgAttr(argument,
                          isName ? StringRef(rt::RTDialect::kName)
                                 : attribute.getName().getValue(),
                          attribute.getValue());
    }
  target.setArgAttr(argument, rt::RTDialect::kAccess,
                    StringAttr::get(context, access));
}

void FunctionLowering::declareArguments() {
  unsigned next = 0;
  for (unsigned i = 0; i < source.getNumArguments(); ++i) {
    Value argument = source.getArgument(i);
    if (StringAttr loss = seedOf(source, i)) {
      auto type = bufferOf(argument.getType());
      Value seed = temporary(type.getElementType(), type.getShape(), "seed",
                             source.getLoc());
      rt::SeedOp::create(b, source.getLoc(), FlatSymbolRefAttr::get(loss),
                         seed);
      buffers[argument] = seed;
      continue;
    }
    copyAttributes(target, next, source.getArgAttrDict(i), "in");
    buffers[argument] = target.getArgument(next++);
  }
  for (unsigned i = 0; i < source.getNumResults(); ++i)
    copyAttributes(target, next++, source.getResultAttrDict(i),
                   isParamGrad(source, i) ? "inout" : "out");
}

//===----------------------------------------------------------------------===//
// Where values end
//===----------------------------------------------------------------------===//

/// The parameter of the same module that this one is another name of.
static StringAttr ownerOf(func::FuncOp function, StringAttr parameter) {
  auto module = function->getParentOfType<dist::ModuleOp>();
  auto program = function->getParentOfType<ModuleOp>();
  if (!module || !program)
    return parameter;
  auto inModule = [&](SymbolRefAttr ref) {
    return ref.getRootReference() == module.getSymNameAttr() &&
           ref.getNestedReferences().size() == 1;
  };
  for (auto tie : program.getOps<dist::TieOp>())
    if (inModule(tie.getAliasAttr()) && inModule(tie.getParameterAttr()) &&
        tie.getAliasAttr().getLeafReference() == parameter)
      return tie.getParameterAttr().getLeafReference();
  return parameter;
}

Value FunctionLowering::gradient(nn::AccumulateOp op) {
  StringAttr parameter = ownerOf(source, op.getParameterAttr().getAttr());
  ArrayAttr beside = op.getBesideAttr();
  Value &v = gradients[{parameter, beside}];
  if (!v) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&target.getBody().front());
    auto address = rt::GradientOp::create(
        b, source.getLoc(), bufferOf(op.getGrad().getType()),
        FlatSymbolRefAttr::get(parameter), beside);
    v = address;
  }
  return v;
}

std::optional<FunctionLowering::Sink>
FunctionLowering::sinkOfUse(OpOperand &use) {
  Operation *user = use.getOwner();
  if (isa<func::ReturnOp>(user)) {
    unsigned i = use.getOperandNumber();
    return Sink{outArgument(i), isParamGrad(source, i)};
  }
  if (auto accumulate = dyn_cast<nn::AccumulateOp>(user))
    return Sink{gradient(accumulate), true};
  if (auto reshape = dyn_cast<nn::ReshapeOp>(user)) {
    std::optional<Sink> sink = sinkOf(reshape.getResult());
    if (sink)
      sink->buffer = view(sink->buffer, nn::getShape(reshape.getInput()),
                          reshape.getLoc());
    return sink;
  }
  return std::nullopt;
}

std::optional<FunctionLowering::Sink> FunctionLowering::sinkOf(Value value) {
  auto it = sinks.find(value);
  if (it == sinks.end())
    return std::nullopt;
  return it->second;
}

/// Users come before what they use, so that chains of reshapes are followed.
void FunctionLowering::findSinks() {
  for (Operation &op : llvm::reverse(source.getBody().front()))
    for (Value result : op.getResults())
      for (OpOperand &use : result.getUses()) {
        std::optional<Sink> sink = sinkOfUse(use);
        // What is added to must not be read by anybody else.
        if (!sink || (sink->add && !result.hasOneUse()))
          continue;
        sinks[result] = *sink;
        break;
      }
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Value FunctionLowering::get(Value tensor) {
  if (!tensor)
    return nullptr;
  Value buffer = buffers.lookup(tensor);
  assert(buffer && "operand has not been lowered");
  return buffer;
}

Source FunctionLowering::read(Value tensor) {
  if (isLowered(tensor))
    return {get(tensor)};
  std::optional<nn::Columns> columns = nn::getReadColumns(tensor);
  assert(columns && "operand has not been lowered");
  return {get(columns->whole),
          RowColumns{columns->axis, columns->pitch, columns->offset}};
}

Value FunctionLowering::temporary(Type element, ArrayRef<DimExpr> shape,
                                  StringRef name, Location loc) {
  return rt::AllocOp::create(b, loc, rt::BufferType::get(element, shape),
                             b.getStringAttr(name), IntegerAttr());
}

Destination FunctionLowering::destination(Value result) {
  std::optional<Sink> sink = sinkOf(result);
  Value buffer;
  if (sink && !sink->add) {
    buffer = sink->buffer;
  } else {
    Operation *op = result.getDefiningOp();
    buffer = temporary(bufferOf(result.getType()).getElementType(),
                       nn::getShape(result), describe(op), op->getLoc());
  }
  buffers[result] = buffer;
  return {buffer, false};
}

Destination FunctionLowering::accumulating(Value result) {
  std::optional<Sink> sink = sinkOf(result);
  if (!sink || !sink->add)
    return destination(result);
  buffers[result] = sink->buffer;
  return {sink->buffer, true};
}

Destination FunctionLowering::wholeOf(nn::ConcatOp concat) {
  Value known = buffers.lookup(concat.getResult());
  return known ? Destination{known} : destination(concat.getResult());
}

std::optional<Destination> FunctionLowering::columns(Value result) {
  std::optional<nn::Columns> columns = nn::getColumns(cast<OpResult>(result));
  if (!columns)
    return std::nullopt;
  inColumns.insert(result);
  Destination whole = wholeOf(columns->whole.getDefiningOp<nn::ConcatOp>());
  whole.columns = {columns->axis, columns->pitch, columns->offset};
  return whole;
}

bool FunctionLowering::endsInGradient(Value value) {
  std::optional<Sink> sink = sinkOf(value);
  return sink && sink->add;
}

Value FunctionLowering::takeOver(Value operand, Value result) {
  std::optional<Sink> sink = sinkOf(result);
  Value buffer = get(operand);
  if ((sink && !sink->add) || !operand.hasOneUse() ||
      !buffer.getDefiningOp<rt::AllocOp>())
    return nullptr;
  // Values that are views of it may have other users.
  auto inside = [&](auto &entry) {
    return rt::getViewedBuffer(entry.second) == buffer;
  };
  return llvm::count_if(buffers, inside) == 1 ? buffer : nullptr;
}

Destination FunctionLowering::summing(const Destination &destination) {
  if (!KernelBuilder::isNarrow(destination.buffer))
    return destination;
  auto type = cast<rt::BufferType>(destination.buffer.getType());
  Value wide = temporary(KernelBuilder::scalarOf(destination.buffer),
                         type.getShape(), "sums", destination.buffer.getLoc());
  sums.push_back({wide, destination});
  return {wide, false};
}

void FunctionLowering::alias(Value result, Value buffer) {
  Type wanted = bufferOf(result.getType()).getElementType();
  if (wanted == cast<rt::BufferType>(buffer.getType()).getElementType())
    buffers[result] = buffer;
  else
    convert(buffer, accumulating(result), result.getLoc());
}

Value FunctionLowering::view(Value buffer, ArrayRef<DimExpr> shape,
                             Location loc, const DimExpr &offset) {
  auto type = cast<rt::BufferType>(buffer.getType()).withShape(shape);
  if (type == buffer.getType() && offset == DimExpr(0))
    return buffer;
  return rt::ViewOp::create(b, loc, type, buffer,
                            nn::DimAttr::get(b.getContext(), offset));
}

void FunctionLowering::convert(Value from, const Destination &to,
                               Location loc) {
  Shape flat{cast<rt::BufferType>(to.buffer.getType()).getNumElements()};
  KernelBuilder k(b, loc, "convert", flat);
  Value x = k.use(from, flat), y = k.use(to.buffer, flat);
  k.write(to, k.load(x, k.indices()), y, k.indices());
}

void FunctionLowering::copy(Value from, Value to, Location loc) {
  auto elementOf = [](Value buffer) {
    return cast<rt::BufferType>(buffer.getType()).getElementType();
  };
  if (elementOf(from) == elementOf(to))
    rt::CopyOp::create(b, loc, from, to);
  else
    convert(from, {to}, loc);
}

void FunctionLowering::addInto(Value from, Value to, Location loc) {
  auto type = cast<rt::BufferType>(to.getType());
  Shape flat{type.getNumElements()};
  KernelBuilder k(b, loc, "accumulate", flat);
  Value x = k.use(from, flat), y = k.use(to, flat);
  k.store(k.add(k.load(y, k.indices()), k.load(x, k.indices())), y,
          k.indices());
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult FunctionLowering::lowerCall(func::CallOp call) {
  auto callee =
      SymbolTable::lookupNearestSymbolFrom(call, call.getCalleeAttr());
  // The callee is a func.func or has been lowered already.
  auto adds = [&](unsigned i) {
    if (auto f = dyn_cast_or_null<func::FuncOp>(callee))
      return isParamGrad(f, i);
    auto f = cast<rt::FuncOp>(callee);
    return f.getAccess(call.getNumOperands() + i) == "inout";
  };
  if (!isa_and_nonnull<func::FuncOp, rt::FuncOp>(callee))
    return call.emitOpError() << "calls no function: " << call.getCallee();
  SmallVector<Value> arguments;
  SmallVector<std::pair<Value, Value>> later;
  for (Value v : call.getOperands())
    arguments.push_back(get(v));
  for (auto [i, result] : llvm::enumerate(call.getResults())) {
    Destination d = adds(i) ? accumulating(result) : destination(result);
    Value argument = d.buffer;
    // The callee's arguments are different memory: of a gradient that it gets
    // twice it adds to one, and the other sum comes from a local.
    bool twice =
        d.add && llvm::any_of(arguments, [&](Value other) {
          return rt::getViewedBuffer(other) == rt::getViewedBuffer(d.buffer);
        });
    if (twice) {
      auto type = cast<rt::BufferType>(d.buffer.getType());
      argument = temporary(type.getElementType(), type.getShape(), "gradient",
                           call.getLoc());
      later.push_back({argument, d.buffer});
    }
    if (adds(i) && (twice || !d.add))
      rt::FillOp::create(
          b, call.getLoc(),
          b.getZeroAttr(
              cast<rt::BufferType>(argument.getType()).getElementType()),
          argument);
    arguments.push_back(argument);
  }
  rt::CallOp::create(b, call.getLoc(), call.getCalleeAttr(), arguments,
                     Value());
  for (auto [from, to] : later)
    addInto(from, to, call.getLoc());
  return success();
}

void FunctionLowering::lowerAccumulate(nn::AccumulateOp op) {
  Value to = gradient(op);
  Value from = get(op.getGrad());
  if (rt::getViewedBuffer(from) != to)
    addInto(from, to, op.getLoc());
}

void FunctionLowering::lowerReturn(func::ReturnOp op) {
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    Value to = outArgument(i);
    Value from = get(value);
    if (rt::getViewedBuffer(from) == to)
      continue;
    if (isParamGrad(source, i))
      addInto(from, to, op.getLoc());
    else
      rt::CopyOp::create(b, op.getLoc(), from, to);
  }
}

LogicalResult FunctionLowering::lower(Operation *op) {
  if (failed(lowerOne(op)))
    return failure();
  for (auto &[wide, destination] : sums)
    convert(wide, destination, op->getLoc());
  sums.clear();
  return success();
}

LogicalResult FunctionLowering::lowerOne(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op))
    return lowerCall(call);
  if (auto accumulate = dyn_cast<nn::AccumulateOp>(op))
    return lowerAccumulate(accumulate), success();
  if (auto ret = dyn_cast<func::ReturnOp>(op))
    return lowerReturn(ret), success();
  if (auto read = dyn_cast<nn::ReadOp>(op)) {
    auto address =
        rt::ParameterOp::create(b, op->getLoc(), bufferOf(read.getType()),
                                read.getParameterAttr(), read.getBesideAttr());
    alias(read.getResult(), address);
    return success();
  }
  if (auto reshape = dyn_cast<nn::ReshapeOp>(op)) {
    if (isInColumns(reshape.getInput())) {
      inColumns.insert(reshape.getResult());
      return success();
    }
    // Of columns that are read where they are.
    if (!isLowered(reshape.getInput()))
      return success();
    alias(reshape.getResult(),
          view(get(reshape.getInput()), nn::getShape(reshape.getResult()),
               op->getLoc()));
    return success();
  }
  if (isa<nn::ScalarOpInterface>(op))
    return lowerScalarOp(op, *this);
  if (auto lowering = dyn_cast<LoweringOpInterface>(op))
    return lowering.lowerToRT(*this);
  return op->emitOpError("has no lowering to rt");
}

LogicalResult FunctionLowering::run() {
  for (Type t : llvm::concat<const Type>(source.getArgumentTypes(),
                                         source.getResultTypes()))
    if (!isa<RankedTensorType>(t))
      return source.emitOpError()
             << "cannot be lowered: " << t << " is not a ranked tensor";
  if (!source.getBody().hasOneBlock())
    return source.emitOpError("cannot be lowered: needs a body of one block");
  b.setInsertionPoint(source);
  target = rt::FuncOp::create(b, source.getLoc(), source.getName(), makeType());
  if (auto visibility = source.getSymVisibilityAttr())
    target.setSymVisibilityAttr(visibility);
  Block *body = target.addEntryBlock();
  b.setInsertionPointToStart(body);
  declareArguments();
  findSinks();
  b.setInsertionPointToEnd(body);
  for (Operation &op : source.getBody().front())
    if (failed(lower(&op)))
      return failure();
  source.erase();
  return success();
}
