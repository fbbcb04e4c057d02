//===- EmitLocal.cpp - Functions with the shapes of one rank ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Runs the model once more along the chosen strategies and writes what it says:
// conversions become collectives, ops their local forms.
//
//===----------------------------------------------------------------------===//

#include "passes/shard/EmitLocal.h"
#include "passes/shard/Localize.h"

using namespace mlir;
using namespace dt;
using namespace dt::shard;

RankedTensorType dt::shard::localType(RankedTensorType type,
                                      const Layout &layout, const Axis &axis) {
  if (layout.kind != Layout::cut)
    return type;
  nn::Shape shape = nn::getShape(type);
  nn::DimExpr &dim = shape[layout.at.dim];
  if (layout.at.kind == Cut::blocks)
    dim = *dim.exactDiv(nn::DimExpr(axis.over));
  else if ((layout.at.kind == Cut::ofExperts && layout.at.chunk) ||
           layout.at.kind == Cut::sent)
    dim = *dim.exactDiv(nn::DimExpr(dim.terms()[0].coefficient)) *
          nn::DimExpr(layout.at.chunk);
  else if (layout.at.kind == Cut::ends)
    dim = nn::DimExpr(layout.at.chunk + 1);
  else if (layout.at.kind == Cut::ofTokens && layout.at.chunk)
    dim = *dim.exactDiv(nn::DimExpr(axis.over));
  return nn::makeTensorType(shape, type.getElementType());
}

dist::LayoutAttr dt::shard::addCut(Attribute layout, RankedTensorType type,
                                   const Cut &cut, const Axis &axis) {
  MLIRContext *context = type.getContext();
  auto added =
      dist::CutAttr::get(context, cut.dim, cut.chunk, axis.over, axis.stride);
  auto old = dyn_cast_or_null<dist::LayoutAttr>(layout);
  if (!old)
    return dist::LayoutAttr::get(context, type.getShape(), {}, {added});
  SmallVector<dist::CutAttr> cuts(old.getCuts());
  cuts.push_back(added);
  return dist::LayoutAttr::get(context, old.getShape(), old.getUnpadded(),
                               cuts);
}

namespace {

class Emitter {
public:
  Emitter(ShardProblem &program, const CostModel &model,
          const LayoutChoice &solution, const Axis &axis)
      : program(program), model(model), solution(solution), axis(axis),
        builder(program.pair.forward.getContext()), masks(model.begin()) {}
  FailureOr<LayerLayouts> run();

private:
  using RowKey = std::pair<unsigned, unsigned>;

  void emitFunction(func::FuncOp function);
  void begin(func::FuncOp function);
  void emitStep(Operation *op);
  void emitCompute(const Step &step, const Strategy &strategy);
  void emitFinish(const Step &step, ArrayRef<State> states);
  void emitConversion(const Conversion &c, Location loc);
  void emitRead(nn::ReadOp read);
  void finishFunction(func::FuncOp function);
  State stateOfArgument(unsigned variable, unsigned index, bool backward);
  State parameterState(unsigned variable) const;
  bool isWanted(RowKey key) const;
  Value &value(unsigned variable, State state) {
    return values[{variable, state}];
  }
  RankedTensorType type(unsigned variable, State state) const {
    const Variable &v = program.variables[variable];
    return localType(v.type, v.layout(state), axis);
  }

  ShardProblem &program;
  const CostModel &model;
  const LayoutChoice &solution;
  Axis axis;
  OpBuilder builder;
  Masks masks;
  unsigned next = 0; ///< step
  std::map<std::pair<unsigned, State>, Value> values;
  llvm::DenseMap<unsigned, State> returnedStates;
  std::map<RowKey, Value> rowSums;
  SmallVector<RowKey> savedRows; ///< in the order of added residuals
  SmallVector<Type> arguments, results;
  SmallVector<DictionaryAttr> argumentAttrs, resultAttrs;
  LayerLayouts layouts;
  bool inBackward = false, impossible = false;
};

} // namespace

State Emitter::parameterState(unsigned variable) const {
  Mask mask = solution.last[variable] & ~kUndecided;
  return mask ? static_cast<State>(llvm::countr_zero(mask)) : kWhole;
}

/// Residuals come as they were returned; other arguments as they were given.
State Emitter::stateOfArgument(unsigned variable, unsigned index,
                               bool backward) {
  const Variable &v = program.variables[variable];
  if (v.parameter)
    return parameterState(variable);
  if (masks[variable])
    return static_cast<State>(llvm::countr_zero(masks[variable]));
  auto it = returnedStates.find(variable);
  if (backward && it != returnedStates.end())
    return it->second;
  return v.given ? v.state(*v.given).value_or(kWhole) : kWhole;
}

void Emitter::begin(func::FuncOp function) {
  values.clear();
  arguments.clear();
  results.clear();
  argumentAttrs.clear();
  resultAttrs.clear();
  function.getAllArgAttrs(argumentAttrs);
  function.getAllResultAttrs(resultAttrs);
  argumentAttrs.resize(function.getNumArguments(),
                       builder.getDictionaryAttr({}));
  resultAttrs.resize(function.getNumResults(), builder.getDictionaryAttr({}));
  auto &kept =
      inBackward ? layouts.backwardArguments : layouts.forwardArguments;
  Block *block = builder.createBlock(&function.getBody());
  for (BlockArgument a : function.front().getArguments()) {
    unsigned v = program.variableOf(a);
    State state = stateOfArgument(v, a.getArgNumber(), inBackward);
    kept.push_back(program.variables[v].layout(state));
    arguments.push_back(type(v, state));
    value(v, state) = block->addArgument(arguments.back(), a.getLoc());
  }
  if (!inBackward)
    return;
  for (const RowKey &key : savedRows) {
    arguments.push_back(rowSums[key].getType());
    argumentAttrs.push_back(builder.getDictionaryAttr(
        builder.getNamedAttr(nn::kResidualAttr, builder.getUnitAttr())));
    rowSums[key] = block->addArgument(arguments.back(), function.getLoc());
  }
}

void Emitter::emitRead(nn::ReadOp read) {
  unsigned v = program.variableOf(read.getResult());
  State state = parameterState(v);
  auto local =
      cast<nn::ReadOp>(cloneLocal(builder, read, {}, {type(v, state)}));
  value(v, state) = local.getResult();
}

void Emitter::emitConversion(const Conversion &c, Location loc) {
  Value from = value(c.variable, c.from);
  Type to = type(c.variable, c.to);
  const Variable &v = program.variables[c.variable];
  auto cut = [&](State state) { return v.layout(state).at; };
  int64_t over = axis.over, stride = axis.stride;
  Value result;
  if (v.isRouted(c.from) || v.isRouted(c.to)) {
    if (!impossible)
      emitError(loc) << "needs the rows of all "
                     << (axis.experts ? "experts, but by ep = "
                                      : "tokens, but by cp = ")
                     << axis.over << " each rank has those of its own";
    impossible = true;
    value(c.variable, c.to) = from;
    return;
  }
  if (c.from == kWhole && c.to == kPartial)
    result = dist::PartialOp::create(builder, loc, to, from, over, stride);
  else if (c.from == kWhole)
    result = dist::SliceOp::create(builder, loc, to, from, cut(c.to).dim,
                                   cut(c.to).chunk, over, stride);
  else if (c.from == kPartial && c.to == kWhole)
    result = dist::AllReduceOp::create(builder, loc, to, rt::Reduction::Sum,
                                       from, over, stride);
  else if (c.from == kPartial)
    result = dist::ReduceScatterOp::create(
        builder, loc, to, from, cut(c.to).dim, cut(c.to).chunk, over, stride);
  else if (c.to == kWhole)
    result = dist::AllGatherOp::create(builder, loc, to, from, cut(c.from).dim,
                                       cut(c.from).chunk, over, stride);
  else if (cut(c.from).dim != cut(c.to).dim)
    result = dist::AllToAllOp::create(builder, loc, to, from, cut(c.from).dim,
                                      cut(c.from).chunk, cut(c.to).dim,
                                      cut(c.to).chunk, over, stride);
  else { // another cut of the same dim
    Value whole =
        dist::AllGatherOp::create(builder, loc, v.type, from, cut(c.from).dim,
                                  cut(c.from).chunk, over, stride);
    result = dist::SliceOp::create(builder, loc, to, whole, cut(c.to).dim,
                                   cut(c.to).chunk, over, stride);
  }
  value(c.variable, c.to) = result;
}

void Emitter::emitCompute(const Step &step, const Strategy &s) {
  SmallVector<Value> operands;
  SmallVector<Type> types;
  for (auto [v, state] : llvm::zip(step.operands, s.operands))
    operands.push_back(value(v, state));
  for (auto [v, state] : llvm::zip(step.results, s.results))
    types.push_back(type(v, state));
  SmallVector<Value> locals;
  auto local = dyn_cast<LocalizeOpInterface>(step.op);
  if (local && s.factor >= 0) {
    FactorCut cut{&*step.rule, static_cast<unsigned>(s.factor),
                  s.chunk,     axis,
                  {},          s.ring};
    cut.sends = s.sends;
    RowKey key{step.operands[0],
               step.operands.size() > 1 ? step.operands[1] : 0};
    if (inBackward && llvm::is_contained(savedRows, key))
      cut.rowSum = rowSums[key];
    locals = local.localize(builder, operands, types, cut);
    if (!inBackward && cut.rowSum)
      rowSums[key] = cut.rowSum;
  } else {
    locals = cloneLocal(builder, step.op, operands, types)->getResults();
  }
  for (auto [i, v] : llvm::enumerate(step.results)) {
    Value result = locals[i];
    if (s.reduce)
      result = dist::AllReduceOp::create(builder, step.op->getLoc(),
                                         result.getType(), *s.reduce, result,
                                         axis.over, axis.stride);
    value(v, s.results[i]) = result;
  }
}

/// Some backward step works on these operands and has its vocabulary cut.
bool Emitter::isWanted(RowKey key) const {
  bool backward = false;
  for (auto [i, step] : llvm::enumerate(program.steps)) {
    backward |= step.kind == Step::turn;
    if (!backward || step.kind != Step::compute || step.operands.size() < 3 ||
        RowKey(step.operands[0], step.operands[1]) != key)
      continue;
    const Strategy &s = step.strategies[solution.choices[i]];
    if (s.factor >= 0 && isa<LocalizeOpInterface>(step.op) &&
        step.rule->factors[s.factor].kind == nn::FactorKind::blocked)
      return true;
  }
  return false;
}

void Emitter::emitFinish(const Step &step, ArrayRef<State> states) {
  SmallVector<Value> operands;
  auto &kept = inBackward ? layouts.backwardResults : layouts.forwardResults;
  for (auto [i, v] : llvm::enumerate(step.operands)) {
    State state = states[i];
    operands.push_back(value(v, state));
    results.push_back(operands.back().getType());
    Layout layout = program.variables[v].layout(state);
    kept.push_back(layout);
    bool residual = bool(resultAttrs[i].get(nn::kResidualAttr));
    if (!inBackward && (residual || !returnedStates.count(v)))
      returnedStates[v] = state;
    if (!program.isModuleFunction() || residual || layout.kind != Layout::cut)
      continue;
    NamedAttrList attrs(resultAttrs[i]);
    attrs.set(dist::kLayoutAttr,
              addCut(attrs.get(dist::kLayoutAttr), program.variables[v].type,
                     layout.at, axis));
    resultAttrs[i] = attrs.getDictionary(builder.getContext());
  }
  if (!inBackward && program.isModuleFunction() && program.pair.backward)
    for (auto &[key, sum] : rowSums) {
      if (!isWanted(key))
        continue;
      savedRows.push_back(key);
      operands.push_back(sum);
      results.push_back(sum.getType());
      resultAttrs.push_back(builder.getDictionaryAttr(
          builder.getNamedAttr(nn::kResidualAttr, builder.getUnitAttr())));
    }
  func::ReturnOp::create(builder, step.op->getLoc(), operands);
}

void Emitter::emitStep(Operation *op) {
  const Step &step = program.steps[next];
  assert(step.op == op && "steps and ops are in one order");
  const Strategy *s = step.strategies.empty()
                          ? nullptr
                          : &step.strategies[solution.choices[next]];
  Applied applied;
  model.apply(masks, next, s, &applied);
  ++next;
  for (const Conversion &c : applied.before)
    emitConversion(c, op->getLoc());
  if (step.kind == Step::compute) {
    emitCompute(step, *s);
  } else if (step.kind == Step::call) {
    SmallVector<Value> operands;
    SmallVector<Type> types;
    for (auto [v, state] : llvm::zip(step.operands, s->operands))
      operands.push_back(value(v, state));
    for (auto [v, state] : llvm::zip(step.results, s->results))
      types.push_back(type(v, state));
    Operation *call = cloneLocal(builder, op, operands, types);
    for (auto [i, v] : llvm::enumerate(step.results))
      value(v, s->results[i]) = call->getResult(i);
  } else if (step.kind == Step::accumulate) {
    auto add = cast<nn::AccumulateOp>(op);
    nn::AccumulateOp::create(builder, op->getLoc(), add.getParameterAttr(),
                             value(step.operands[0], applied.operands[0]));
  } else {
    emitFinish(step, applied.operands);
  }
  for (const Conversion &c : applied.after)
    emitConversion(c, op->getLoc());
}

void Emitter::emitFunction(func::FuncOp function) {
  Block &old = function.front();
  begin(function);
  Block *block = builder.getInsertionBlock();
  for (Operation &op : old) {
    builder.setInsertionPointToEnd(block);
    if (auto read = dyn_cast<nn::ReadOp>(op))
      emitRead(read);
    else
      emitStep(&op);
  }
}

void Emitter::finishFunction(func::FuncOp function) {
  function.front().erase();
  function.setFunctionType(builder.getFunctionType(arguments, results));
  function.setAllArgAttrs(argumentAttrs);
  function.setAllResultAttrs(resultAttrs);
}

FailureOr<LayerLayouts> Emitter::run() {
  emitFunction(program.pair.forward);
  // Steps are looked at until the end: bodies go last.
  SmallVector<Type> types[2] = {arguments, results};
  SmallVector<DictionaryAttr> attrs[2] = {argumentAttrs, resultAttrs};
  if (program.pair.backward) {
    model.apply(masks, next++, nullptr);
    inBackward = true;
    emitFunction(program.pair.backward);
    finishFunction(program.pair.backward);
  }
  arguments = types[0];
  results = types[1];
  argumentAttrs = attrs[0];
  resultAttrs = attrs[1];
  finishFunction(program.pair.forward);
  if (impossible)
    return failure();
  return layouts;
}

FailureOr<LayerLayouts> dt::shard::emitLocal(ShardProblem &program,
                                             const CostModel &model,
                                             const LayoutChoice &solution,
                                             const Axis &axis) {
  return Emitter(program, model, solution, axis).run();
}
