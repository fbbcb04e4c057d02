//===- JoinedParameters.cpp - Parameters side by side -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/optimize/JoinedParameters.h"

#include "dialects/nn/NNNames.h"
#include "passes/optimize/Functions.h"

using namespace mlir;
using namespace dt;
using namespace dt::optimize;

namespace {

/// Places of parameters are multiples of 64 bytes, in elements of 2 bytes.
constexpr int64_t kUnit = 32;

/// Of functions that call one another without end there would be more.
constexpr unsigned kMostCalls = 16;

template <typename OpT> bool areAll(ArrayRef<Value> values) {
  return llvm::all_of(values, [](Value v) { return v.getDefiningOp<OpT>(); });
}

/// The function whose arguments all of them are, or null.
func::FuncOp functionOf(ArrayRef<Value> values) {
  Value first = values.front();
  Block *block = first.getParentBlock();
  auto function = dyn_cast_or_null<func::FuncOp>(block->getParentOp());
  bool same = llvm::all_of(values, [&](Value v) {
    return isa<BlockArgument>(v) && v.getParentBlock() == block;
  });
  return same && function && function.isPrivate() ? function : func::FuncOp();
}

RankedTensorType joinTypes(ArrayRef<Value> values) {
  nn::Shape shape = nn::getShape(values.front());
  for (Value v : values.drop_front())
    shape[0] = shape[0] + nn::getShape(v)[0];
  return nn::makeTensorType(shape, nn::elementOf(values.front()));
}

ArrayAttr besideOf(const Names &names) {
  SmallVector<Attribute> beside;
  for (StringAttr name : ArrayRef(names).drop_front())
    beside.push_back(FlatSymbolRefAttr::get(name));
  return ArrayAttr::get(names.front().getContext(), beside);
}

/// Whether they stand side by side where the group does.
bool isRun(const Names &names, const Names &group) {
  auto begin = llvm::find(group, names.front());
  return size_t(group.end() - begin) >= names.size() &&
         std::equal(names.begin(), names.end(), begin);
}

Operation *userOf(Value v) { return *v.getUsers().begin(); }

} // namespace

JoinedParameters::JoinedParameters(dist::ModuleOp module) : module(module) {
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    order[parameter.getSymNameAttr()] = parameters.size();
    parameters[parameter.getSymNameAttr()] = parameter;
  }
  auto program = module->getParentOfType<ModuleOp>();
  for (auto tie : program.getOps<dist::TieOp>())
    for (SymbolRefAttr ref : {tie.getAliasAttr(), tie.getParameterAttr()})
      if (ref.getRootReference() == module.getSymNameAttr())
        tied.insert(ref.getLeafReference());
}

SmallVector<Names> JoinedParameters::namesOfValues(ArrayRef<Value> values,
                                                   unsigned depth) {
  if (areAll<nn::ReadOp>(values)) {
    Names names;
    for (Value v : values) {
      auto read = v.getDefiningOp<nn::ReadOp>();
      if (read.getBeside())
        return {};
      names.push_back(read.getParameterAttr().getAttr());
    }
    return {names};
  }
  func::FuncOp function = functionOf(values);
  if (!function || depth == kMostCalls)
    return {};
  SmallVector<Names> all;
  for (func::CallOp call : getCalls(function)) {
    SmallVector<Value> given;
    for (Value v : values)
      given.push_back(call.getOperand(cast<BlockArgument>(v).getArgNumber()));
    SmallVector<Names> names = namesOfValues(given, depth + 1);
    if (names.empty())
      return {};
    llvm::append_range(all, names);
  }
  return all;
}

SmallVector<Names> JoinedParameters::namesOfGradients(ArrayRef<Value> values,
                                                      unsigned depth) {
  if (!llvm::all_of(values, [](Value v) { return v.hasOneUse(); }))
    return {};
  if (auto ret = dyn_cast<func::ReturnOp>(userOf(values.front()))) {
    auto function = ret->getParentOfType<func::FuncOp>();
    if (!function.isPrivate() || depth == kMostCalls)
      return {};
    SmallVector<unsigned> results;
    for (Value v : values) {
      OpOperand &use = *v.use_begin();
      if (use.getOwner() != ret ||
          !function.getResultAttr(use.getOperandNumber(), nn::kParamGradAttr))
        return {};
      results.push_back(use.getOperandNumber());
    }
    SmallVector<Names> all;
    for (func::CallOp call : getCalls(function)) {
      SmallVector<Value> given;
      for (unsigned i : results)
        given.push_back(call.getResult(i));
      SmallVector<Names> names = namesOfGradients(given, depth + 1);
      if (names.empty())
        return {};
      llvm::append_range(all, names);
    }
    return all;
  }
  Names names;
  for (Value v : values) {
    auto accumulate = dyn_cast<nn::AccumulateOp>(userOf(v));
    if (!accumulate || accumulate.getBeside() ||
        accumulate->getBlock() != v.getParentBlock())
      return {};
    names.push_back(accumulate.getParameterAttr().getAttr());
  }
  return {names};
}

StringAttr JoinedParameters::getKind(StringAttr name) {
  nn::ParameterOp p = parameters.lookup(name);
  if (!p || tied.contains(name))
    return {};
  std::string kind;
  llvm::raw_string_ostream out(kind);
  nn::Shape shape = nn::getShape(p.getType());
  if (shape.empty())
    return {};
  out << p.getTrainable() << p.getNoGradient() << p.getType().getElementType()
      << p.getStoredType().getElementType() << p.getNarrowGradient()
      << nn::shapeToString(ArrayRef<nn::DimExpr>(shape).drop_front());
  return StringAttr::get(name.getContext(), kind);
}

bool JoinedParameters::join(ArrayRef<Names> lists) {
  llvm::DenseMap<StringAttr, Names> next = groups;
  for (const Names &names : lists) {
    StringAttr kind = getKind(names.front());
    for (StringAttr name : names) {
      if (!kind || getKind(name) != kind)
        return false;
      std::optional<int64_t> elements =
          nn::getNumElements(nn::getShape(parameters.lookup(name).getType()))
              .asConstant();
      // Padding would stand between it and the next.
      if (name != names.back() && (!elements || *elements % kUnit))
        return false;
    }
    auto known = groups.find(names.front());
    if (known != groups.end() && isRun(names, known->second))
      continue;
    for (StringAttr name : names) {
      auto [it, fresh] = next.try_emplace(name, names);
      if (!fresh && it->second != names)
        return false;
    }
    if (llvm::SmallDenseSet<StringAttr>(names.begin(), names.end()).size() !=
        names.size())
      return false;
  }
  groups = std::move(next);
  return true;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value JoinedParameters::joinValues(ArrayRef<Value> values) {
  for (auto &[parts, joined] : joinedValues)
    if (ArrayRef<Value>(parts) == values)
      return joined;
  Value joined =
      areAll<nn::ReadOp>(values) ? joinReads(values) : joinArguments(values);
  joinedValues.push_back({llvm::to_vector(values), joined});
  return joined;
}

Value JoinedParameters::joinReads(ArrayRef<Value> values) {
  Operation *first = values.front().getDefiningOp();
  // Nothing writes parameters, and products may stand ahead of some reads.
  auto b = OpBuilder::atBlockBegin(first->getBlock());
  Names names = namesOfValues(values).front();
  auto read = nn::ReadOp::create(b, first->getLoc(), joinTypes(values),
                                 FlatSymbolRefAttr::get(names.front()));
  read.setBesideAttr(besideOf(names));
  return read;
}

Value JoinedParameters::joinArguments(ArrayRef<Value> values) {
  func::FuncOp function = functionOf(values);
  SmallVector<unsigned> places;
  for (Value v : values)
    places.push_back(cast<BlockArgument>(v).getArgNumber());
  unsigned place = places.front();
  for (func::CallOp call : getCalls(function)) {
    SmallVector<Value> given;
    for (unsigned i : places)
      given.push_back(call.getOperand(i));
    call->insertOperands(place, joinValues(given));
  }
  Builder b(function.getContext());
  NamedAttrList attributes;
  if (auto name = function.getArgAttrOfType<StringAttr>(place, nn::kNameAttr))
    attributes.set(nn::kNameAttr, b.getStringAttr(name.getValue() + ".joined"));
  (void)function.insertArgument(place, joinTypes(values),
                                attributes.getDictionary(b.getContext()),
                                values.front().getLoc());
  replaced.insert(values.begin(), values.end());
  return function.getArgument(place);
}

void JoinedParameters::eraseUnused() {
  for (Value v : replaced) {
    auto argument = cast<BlockArgument>(v);
    if (!argument.use_empty())
      continue;
    func::FuncOp function = functionOf(v);
    for (func::CallOp call : getCalls(function))
      call->eraseOperand(argument.getArgNumber());
    (void)function.eraseArgument(argument.getArgNumber());
  }
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

void JoinedParameters::joinGradients(ArrayRef<Value> gradients, Value joined) {
  if (auto ret = dyn_cast<func::ReturnOp>(userOf(gradients.front())))
    joinResults(ret, gradients, joined);
  else
    joinAccumulates(gradients, joined);
}

void JoinedParameters::joinAccumulates(ArrayRef<Value> gradients,
                                       Value joined) {
  Names names = namesOfGradients(gradients).front();
  Operation *last = userOf(gradients.front());
  for (Value v : gradients)
    if (last->isBeforeInBlock(userOf(v)))
      last = userOf(v);
  OpBuilder b(last);
  auto accumulate = nn::AccumulateOp::create(
      b, last->getLoc(), FlatSymbolRefAttr::get(names.front()), joined);
  accumulate.setBesideAttr(besideOf(names));
  for (Value v : gradients)
    userOf(v)->erase();
}

void JoinedParameters::joinResults(func::ReturnOp ret,
                                   ArrayRef<Value> gradients, Value joined) {
  // In the order of the parameters, which may be another than that of results.
  SmallVector<unsigned> places;
  for (Value v : gradients)
    places.push_back(v.use_begin()->getOperandNumber());
  SmallVector<unsigned> sorted(places);
  llvm::sort(sorted);
  optimize::joinResults(ret->getParentOfType<func::FuncOp>(), places, joined,
                        [&](ValueRange old, Value now) {
                          SmallVector<Value> parts;
                          for (unsigned i : places)
                            parts.push_back(
                                old[llvm::find(sorted, i) - sorted.begin()]);
                          joinGradients(parts, now);
                        });
}
