//===- ItemAxes.cpp - Which axis of a value counts items --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/modules/ItemAxes.h"

#include "dialects/nn/NNNumbers.h"

using namespace mlir;

namespace dt::modules {

namespace {

/// Names of inputs that the recipe declares to point to samples or rows, as
/// they stand there: each part has its own numbers.
llvm::StringSet<> declaredIndices(mlir::ModuleOp program) {
  llvm::StringSet<> names;
  for (auto input : program.getOps<dist::InputOp>())
    for (StringRef key : {"index", "rebase", "item_of"})
      if (input.getDescription().contains(key))
        names.insert(input.getName());
  return names;
}

} // namespace

bool isCut(mlir::ModuleOp program) {
  return dist::getNumMicrobatches(program) > 1 ||
         llvm::any_of(program.getOps<dist::ModuleOp>(), [](auto module) {
           return dist::Placement(module).getNumParts() > 1;
         });
}

bool takesLocalStatistics(mlir::ModuleOp program) {
  auto batch = dist::getOnly<dist::BatchOp>(program);
  return batch && batch.getLocalStatistics();
}

Operation *findLocalStatistics(dist::ModuleOp module) {
  if (!takesLocalStatistics(module->getParentOfType<mlir::ModuleOp>()))
    return nullptr;
  ItemAnalysis local(module, true), whole(module, false);
  for (Operation &op : module.getForward().getBody().front())
    for (Value value : op.getResults())
      if (whole.get(value).is(ItemState::Coupled) &&
          !local.get(value).is(ItemState::Coupled))
        return &op;
  return nullptr;
}

std::string describe(Operation *op) {
  std::string text = ("'" + op->getName().getStringRef() + "'").str();
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    text += (" (" + name.getName().getValue() + ")").str();
  return text;
}

ItemAnalysis::ItemAnalysis(dist::ModuleOp module, bool localStatistics)
    : localStatistics(localStatistics) {
  for (auto dim : module.getOps<nn::DimOp>())
    if (dim.getItem())
      symbols.insert(dim.getSymName());
  func::FuncOp forward = module.getForward();
  auto program = module->getParentOfType<mlir::ModuleOp>();
  llvm::StringSet<> indices =
      program ? declaredIndices(program) : llvm::StringSet<>();
  for (BlockArgument argument : forward.getArguments()) {
    SmallVector<int64_t> axes = getItemAxes(argument.getType());
    ItemState state;
    if (axes.size() == 1)
      state = ItemState::perItem(axes[0]);
    else if (!axes.empty())
      state =
          ItemState::coupled(forward, "an input has two axes of items", true);
    StringRef plain =
        dist::ModuleOp::getArgumentName(forward, argument.getArgNumber());
    std::string full = (module.getExternalName() + "." + plain).str();
    state.declaredIndex = state.is(ItemState::PerItem) &&
                          (indices.contains(full) || indices.contains(plain));
    state.isGiven = state.is(ItemState::PerItem) &&
                    isa<IntegerType>(getElementTypeOrSelf(argument.getType()));
    states[argument] = state;
  }
  for (Operation &op : forward.getBody().front())
    visit(&op);
}

SmallVector<int64_t> ItemAnalysis::getItemAxes(Type type) const {
  SmallVector<int64_t> axes;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return axes;
  for (auto [i, dim] : llvm::enumerate(nn::getShape(tensor)))
    if (llvm::any_of(dim.symbols(),
                     [&](const std::string &s) { return symbols.contains(s); }))
      axes.push_back(i);
  return axes;
}

/// A layer is looked at again for every call: what its values are depends on
/// the operands.
void ItemAnalysis::visitCall(func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  if (!callee || !callee.getBody().hasOneBlock() ||
      !active.insert(callee).second) {
    for (Value result : call.getResults())
      states[result] =
          ItemState::coupled(call, "is not known to treat items alone");
    return;
  }
  for (auto [argument, operand] :
       llvm::zip(callee.getArguments(), call.getOperands()))
    states[argument] = states.lookup(operand);
  Block &body = callee.getBody().front();
  for (Operation &op : body)
    visit(&op);
  for (auto [result, value] :
       llvm::zip(call.getResults(), body.getTerminator()->getOperands()))
    states[result] = states.lookup(value);
  active.erase(callee);
}

/// What a running count may go through on its way to be an index.
static bool keepsRunningCount(Operation *op) {
  return op->hasTrait<nn::KeepsCount>() &&
         getElementTypeOrSelf(op->getResult(0)).isIntOrIndex();
}

/// Numbers of items and rows have 32 bits.
static bool keepsIntegers(nn::CastOp cast) {
  auto from = dyn_cast<IntegerType>(getElementTypeOrSelf(cast.getInput())),
       to = dyn_cast<IntegerType>(getElementTypeOrSelf(cast.getType()));
  return from && to && to.getWidth() >= std::min(from.getWidth(), 32u);
}

std::optional<unsigned> findShifted(Operation *op) {
  if (!isa<nn::AddOp, nn::SubOp>(op) ||
      !getElementTypeOrSelf(op->getResult(0)).isIntOrIndex())
    return std::nullopt;
  if (nn::splatOf(op->getOperand(1)))
    return 0;
  if (isa<nn::AddOp>(op) && nn::splatOf(op->getOperand(0)))
    return 1;
  return std::nullopt;
}

/// Where different integers stay different: what has been added to all.
static std::optional<int64_t> keepGiven(Operation *op,
                                        nn::ItemStates operands) {
  auto cast = dyn_cast<nn::CastOp>(op);
  if (isa<nn::ReshapeOp, nn::BroadcastOp>(op) || (cast && keepsIntegers(cast)))
    return operands[0].isGiven ? std::optional(operands[0].givenPlus)
                               : std::nullopt;
  std::optional<unsigned> shifted = findShifted(op);
  if (!shifted || !operands[*shifted].isGiven)
    return std::nullopt;
  auto more = int64_t(*nn::splatOf(op->getOperand(1 - *shifted)));
  return operands[*shifted].givenPlus + (isa<nn::AddOp>(op) ? more : -more);
}

/// Whether a comparison says the same of places wherever these are counted
/// from: of none or some (numbers below 0 say that there is none).
static bool asksWhetherPlace(nn::CmpOp op, unsigned place) {
  std::optional<double> bound = nn::splatOf(op->getOperand(1 - place));
  if (!bound || *bound > 0)
    return false;
  auto predicate = op.getPredicate();
  bool sign =
      place == 0 ? predicate == nn::Compare::lt || predicate == nn::Compare::ge
                 : predicate == nn::Compare::gt || predicate == nn::Compare::le;
  return *bound < 0 || sign;
}

static bool picksItems(Operation *op, nn::ItemStates operands) {
  auto rule = dyn_cast<nn::ItemOpInterface>(op);
  return rule && rule.picksItems(operands);
}

/// Whether numbers of rows become something else than rows picked by them.
static bool losesOwnNumber(Operation *op, nn::ItemStates operands,
                           const ItemState &result) {
  for (auto [i, state] : llvm::enumerate(operands))
    if (state.hasOwnNumber() && !result.hasOwnNumber() &&
        !(i == 1 && picksItems(op, operands)))
      return true;
  return false;
}

/// Tables of pairs whose pairs of different items change nothing are as what
/// no item has to do with.
static SmallVector<ItemState> hideForeignPairs(Operation *op,
                                               nn::ItemStates operands) {
  SmallVector<ItemState> states(operands);
  auto rule = dyn_cast<nn::ItemOpInterface>(op);
  for (auto [i, state] : llvm::enumerate(states))
    if (state.isPairTable && rule && rule.hidesForeignPairs(i))
      state = {};
  return states;
}

/// Whether places become something else than rows picked by them: each part
/// counts them anew, so as numbers they differ from part to part.
static bool losesPlace(Operation *op, nn::ItemStates operands,
                       const ItemState &result) {
  for (auto [i, state] : llvm::enumerate(operands)) {
    if (!state.declaredIndex || (i == 1 && picksItems(op, operands)))
      continue;
    auto cast = dyn_cast<nn::CastOp>(op);
    auto compare = dyn_cast<nn::CmpOp>(op);
    // What has no place may get the first one.
    bool clamps = isa<nn::MaxOp>(op) &&
                  nn::splatOf(op->getOperand(1 - i)).value_or(1) <= 0;
    bool moves = isa<nn::ReshapeOp, nn::BroadcastOp, nn::TransposeOp,
                     nn::SliceOp, nn::ConcatOp>(op) ||
                 (cast && keepsIntegers(cast)) || clamps;
    if (!(moves && result.declaredIndex) &&
        !(compare && asksWhetherPlace(compare, i)))
      return true;
  }
  return false;
}

/// What a rule says, if the result's axes are so.
ItemState ItemAnalysis::stateOf(Value result, const ItemState &said,
                                nn::ItemStates operands) const {
  Operation *op = result.getDefiningOp();
  SmallVector<int64_t> axes = getItemAxes(result.getType());
  bool fits =
      said.is(ItemState::Coupled) ||
      (said.is(ItemState::PerItem) ? axes.size() == 1 && axes[0] == said.axis
                                   : axes.empty());
  ItemState state = said;
  if (!fits && said.is(ItemState::Invariant) && axes.size() == 1)
    state =
        ItemState::coupled(op, "gives items rows by their place in the batch");
  else if (!fits)
    state = ItemState::coupled(op, nn::kEveryWithEvery, axes.size() > 1);
  if (state.pairwise && axes.size() == 2)
    state.isPairTable |= nn::arePairs(op, operands);
  return state;
}

SmallVector<ItemState> ItemAnalysis::transfer(Operation *op,
                                              nn::ItemStates states) const {
  SmallVector<ItemState> results(op->getNumResults());
  if (results.empty())
    return results;
  SmallVector<ItemState> operands = hideForeignPairs(op, states);
  auto *coupled = llvm::find_if(
      operands, [](const ItemState &s) { return s.is(ItemState::Coupled); });
  if (coupled != operands.end()) {
    ItemState state = *coupled;
    state.isPairTable = nn::arePairs(op, operands);
    llvm::fill(results, state);
    return results;
  }
  auto *count = llvm::find_if(
      operands, [](const ItemState &s) { return s.isRunningCount; });
  bool counts = count != operands.end();
  // Rows are taken in order, from items or from a table that is all of theirs.
  bool takesRows = isa<nn::GatherOp>(op) && count == &operands[1];
  if (counts && !keepsRunningCount(op) && !takesRows) {
    llvm::fill(results, ItemState::coupled(count->culprit,
                                           "works along the axis of items"));
    return results;
  }
  ItemState state;
  if (auto rule = dyn_cast<nn::ItemOpInterface>(op))
    state = rule.inferItems(operands, *this);
  else if (!nn::allAre(operands, ItemState::Invariant))
    state = ItemState::coupled(op, "is not known to treat items alone");
  if (!state.is(ItemState::Coupled) && losesOwnNumber(op, operands, state))
    state = ItemState::coupled(op, nn::kNumberInPart);
  if (!state.is(ItemState::Coupled) && losesPlace(op, operands, state))
    state = ItemState::coupled(op, kPlaces);
  state.declaredIndex &= !isa<nn::CmpOp>(op);
  std::optional<int64_t> given =
      state.is(ItemState::PerItem) ? keepGiven(op, operands) : std::nullopt;
  state.isGiven = given.has_value();
  state.givenPlus = given.value_or(0);
  if (counts && state.is(ItemState::PerItem) && keepsRunningCount(op)) {
    state.isRunningCount = true;
    state.culprit = count->culprit;
  }
  for (auto [result, value] : llvm::zip(results, op->getResults()))
    result = stateOf(value, state, operands);
  return results;
}

bool ItemAnalysis::hasItemsFirst(Value value) const {
  const ItemState &state = states.lookup(value);
  return state.is(ItemState::PerItem) && state.axis == 0 &&
         state.major == nn::DimExpr(1);
}

bool ItemAnalysis::combinesOwnRows(nn::CombineOp combine) const {
  Value order = combine.getOrder();
  auto route = order.getDefiningOp<nn::RouteOp>();
  if (!route || !hasItemsFirst(route.getExperts()))
    return false;
  llvm::SetVector<Value> values;
  values.insert(combine.getInput());
  for (size_t i = 0; i < values.size(); ++i) {
    Operation *op = values[i].getDefiningOp();
    if (states.lookup(values[i]).is(ItemState::Invariant))
      continue;
    if (auto dispatch = dyn_cast_or_null<nn::DispatchOp>(op)) {
      if (dispatch.getOrder() != order || !hasItemsFirst(dispatch.getInput()))
        return false;
      continue;
    }
    SmallVector<bool> rows;
    if (auto product = dyn_cast_or_null<nn::GroupedLinearOp>(op)) {
      if (product.getOffsets().getDefiningOp() != order.getDefiningOp())
        return false;
      rows.assign(op->getNumOperands(), false);
      rows[0] = rows[2] = true;
      values.insert(product.getInput());
    } else if (op && nn::treatsRowsAlone(op, rows)) {
      for (auto [operand, has] : llvm::zip(op->getOperands(), rows))
        if (has)
          values.insert(operand);
    } else {
      return false;
    }
    for (auto [operand, has] : llvm::zip(op->getOperands(), rows))
      if (!has && !states.lookup(operand).is(ItemState::Invariant))
        return false;
  }
  return true;
}

void ItemAnalysis::visit(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op))
    return visitCall(call);
  SmallVector<ItemState> operands;
  for (Value operand : op->getOperands())
    operands.push_back(states.lookup(operand));
  SmallVector<ItemState> results = transfer(op, operands);
  for (auto [result, state] : llvm::zip(op->getResults(), results))
    states[result] = state;
  auto combine = dyn_cast<nn::CombineOp>(op);
  if (combine && combinesOwnRows(combine))
    states[combine] = stateOf(combine, ItemState::perItem(0), operands);
}

} // namespace dt::modules
