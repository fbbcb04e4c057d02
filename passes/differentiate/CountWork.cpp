//===- CountWork.cpp - FLOPs of the model ---------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a step must multiply, whatever is computed again and however it is cut:
// counted on the forward functions, by the gradients that are wanted.
//
//===----------------------------------------------------------------------===//

#include "passes/differentiate/Activity.h"
#include "passes/differentiate/Passes.h"

#include <map>

using namespace mlir;

namespace dt::differentiate {
#define GEN_PASS_DEF_COUNTWORK
#include "passes/differentiate/Passes.h.inc"
} // namespace dt::differentiate

using namespace dt;
using namespace dt::differentiate;

namespace {

struct Work {
  nn::DimExpr size;
  llvm::SmallVector<dist::PairsAttr>
      pairs; ///< no two that differ in FLOPs only

  void add(dist::PairsAttr more) {
    for (dist::PairsAttr &known : pairs)
      if (known.getRows() == more.getRows() &&
          known.getColumns() == more.getColumns() &&
          known.getCausal() == more.getCausal() &&
          known.getWindow() == more.getWindow()) {
        known = dist::PairsAttr::get(known.getContext(),
                                     known.getFlops() + more.getFlops(),
                                     known.getRows(), known.getColumns(),
                                     known.getCausal(), known.getWindow());
        return;
      }
    pairs.push_back(more);
  }
  void add(const Work &other) {
    size = size + other.size;
    for (dist::PairsAttr more : other.pairs)
      add(more);
  }
};

/// Counts the functions of a module, each with the gradients that it has and
/// that are wanted of it.
class WorkCounter {
public:
  WorkCounter(dist::ModuleOp module, SymbolTableCollection &tables)
      : module(module), tables(tables), activity(tables) {}

  const Work &count(func::FuncOp function, const Flags &wanted,
                    const Flags &gradients);

private:
  void addAttention(nn::AttentionOp op, const ValueSet &active, Work &work);
  std::optional<dist::PairsAttr> inItems(nn::AttentionOp op, int64_t flops);
  nn::DimOp itemsOf(const nn::DimExpr &rows);

  dist::ModuleOp module;
  SymbolTableCollection &tables;
  Activity activity;
  std::map<std::tuple<Operation *, Flags, Flags>, Work> counted;
};

Flags activeOf(ValueRange values, const ValueSet &active) {
  return llvm::map_to_vector<6>(
      values, [&](Value value) { return active.contains(value); });
}

/// Of both factors of a product: as many FLOPs again for the gradient of each
/// that wants one.
int64_t passesOver(Operation *op, const ValueSet &active) {
  bool reached = llvm::is_contained(activeOf(op->getResults(), active), true);
  Flags factors = activeOf(op->getOperands().take_front(2), active);
  return 1 + (reached ? llvm::count(factors, true) : 0);
}

const Work &WorkCounter::count(func::FuncOp function, const Flags &wanted,
                               const Flags &gradients) {
  auto [it, isNew] = counted.try_emplace({function, wanted, gradients});
  if (!isNew || function.isExternal())
    return it->second; // zero in a recursion, which is no valid IR
  ValueSet active, counting = activity.countingValues(function, gradients);
  for (Value value : activity.variedValues(function, wanted))
    if (counting.contains(value))
      active.insert(value);
  Work work;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      if (func::FuncOp callee = getCallee(call, tables))
        work.add(count(callee, activeOf(call.getOperands(), active),
                       activeOf(call.getResults(), active)));
      return WalkResult::skip();
    }
    auto cost = dyn_cast<nn::CostOpInterface>(op);
    if (!cost)
      return WalkResult::advance();
    if (auto attention = dyn_cast<nn::AttentionOp>(op))
      addAttention(attention, active, work);
    else if (cost.getWork().isComputeHeavy())
      work.size =
          work.size + cost.getFlops() * nn::DimExpr(passesOver(op, active));
    return WalkResult::skip(); // its body is in its own figure
  });
  return counted[{function, wanted, gradients}] = std::move(work);
}

/// Scores and what they weigh; gradients of either take two products, of which
/// one is for the values and one each for queries and keys.
void WorkCounter::addAttention(nn::AttentionOp op, const ValueSet &active,
                               Work &work) {
  Flags factors = activeOf({op.getQuery(), op.getKey(), op.getValue()}, active);
  if (!active.contains(op.getResult()))
    factors.assign(3, false);
  nn::Shape query = nn::getShape(op.getQuery());
  nn::DimExpr d = query[3], e = nn::getShape(op.getValue())[3];
  auto times = [](bool count, const nn::DimExpr &size) {
    return size * nn::DimExpr(count ? 2 : 0);
  };
  nn::DimExpr forward = times(true, d) + times(true, e),
              all = forward + times(factors[0], d) + times(factors[1], d) +
                    times(factors[2], e) + times(factors[0] || factors[1], e);
  nn::DimExpr each = query[0] * query[2] * all;
  if (std::optional<int64_t> flops = each.asConstant())
    if (auto pairs = inItems(op, *flops))
      return work.add(*pairs);
  work.size = work.size +
              (op.getFlops() * all).exactDiv(forward).value_or(op.getFlops());
}

/// Attention of rows that stand behind one another, item by item.
std::optional<dist::PairsAttr> WorkCounter::inItems(nn::AttentionOp op,
                                                    int64_t flops) {
  if (!op.getQuerySegments())
    return std::nullopt;
  nn::DimExpr rows = nn::getShape(op.getQuery())[1],
              columns = nn::getShape(op.getKey())[1];
  nn::DimOp ofRows = itemsOf(rows), ofColumns = itemsOf(columns);
  if (!ofRows || !ofColumns || ofRows.getItem() != ofColumns.getItem())
    return std::nullopt;
  MLIRContext *context = op.getContext();
  return dist::PairsAttr::get(context, flops, nn::DimAttr::get(context, rows),
                              nn::DimAttr::get(context, columns),
                              op.getCausal(), op.getWindow().value_or(0));
}

/// The dim that counts items, or adds a measure of theirs up, of which `rows`
/// is a multiple.
nn::DimOp WorkCounter::itemsOf(const nn::DimExpr &rows) {
  std::optional<nn::DimExpr::Affine> affine = rows.asAffine();
  if (!affine || affine->offset || affine->symbol.empty())
    return {};
  auto dim = module.lookupSymbol<nn::DimOp>(affine->symbol);
  return dim && dim.getItem() ? dim : nn::DimOp();
}

struct CountWorkPass : differentiate::impl::CountWorkBase<CountWorkPass> {
  void runOnOperation() override {
    dist::ModuleOp module = getOperation();
    func::FuncOp forward = module.getForward();
    if (!forward)
      return;
    Flags wanted, gradients;
    for (unsigned i = 0; i < forward.getNumArguments(); ++i)
      wanted.push_back(bool(forward.getArgAttr(i, nn::kWantsGradAttr)));
    for (unsigned i = 0; i < forward.getNumResults(); ++i)
      gradients.push_back(bool(forward.getResultAttr(i, nn::kGradientsAttr)));
    SymbolTableCollection tables;
    WorkCounter counter(module, tables);
    const Work &work = counter.count(forward, wanted, gradients);
    MLIRContext *context = &getContext();
    module.setWorkAttr(dist::WorkAttr::get(
        context, nn::DimAttr::get(context, work.size), work.pairs));
  }
};

} // namespace
