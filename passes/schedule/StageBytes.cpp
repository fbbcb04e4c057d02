//===- StageBytes.cpp - What a stage holds of a rank's memory -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/schedule/StageBytes.h"

#include "dialects/nn/NNColumns.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dt::schedule {

using planner::Linear;

/// Ranks that share out the optimizer's state of a parameter: replicas, and
/// those that have its gradient of other tokens or samples.
static double countShares(dist::ModuleOp module, nn::ParameterOp parameter) {
  dist::Placement placement(module);
  if (!placement.zero)
    return 1;
  auto shares = double(placement.dp);
  if (auto axes =
          parameter->getAttrOfType<ArrayAttr>(dist::kPartialGradientAttr))
    for (auto axis : axes.getAsRange<dist::CutAttr>())
      if (axis.getDim() == rt::kTokenAxis)
        shares *= double(axis.getOver());
  return shares;
}

planner::StateBytes getStateBytes(dist::ModuleOp module) {
  planner::StateBytes bytes;
  auto program = module->getParentOfType<mlir::ModuleOp>();
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    auto bytesOf = [](RankedTensorType type) {
      return double(type.getNumElements() *
                    nn::getElementBytes(type.getElementType()));
    };
    double master = bytesOf(cast<RankedTensorType>(parameter.getType())),
           gradient = bytesOf(parameter.getGradientType());
    bytes.parameters += bytesOf(parameter.getStoredType());
    if (!parameter.getTrainable())
      continue;
    bytes.gradients += gradient;
    double shares = countShares(module, parameter);
    bytes.moments +=
        (double(dist::getStateFloats(program, parameter)) * sizeof(float) +
         (parameter.getWorking() ? master : 0)) /
        shares;
    bytes.sums += shares > 1 ? gradient / shares : 0;
  }
  return bytes;
}

/// Results of a function that have an attribute.
static Linear getResultBytes(const stages::Sizes &sizes, func::FuncOp function,
                             StringRef attribute) {
  Linear bytes;
  for (unsigned i = 0; function && i < function.getNumResults(); ++i)
    if (function.getResultAttr(i, attribute))
      bytes += sizes.bytesOfItem(function.getResultTypes()[i]);
  return bytes;
}

Linear getResidualBytes(const stages::Sizes &sizes, func::FuncOp function) {
  return getResultBytes(sizes, function, nn::kResidualAttr);
}

/// An argument that is an input; null: it is none.
static StringAttr getInput(func::FuncOp function, unsigned i) {
  return function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr);
}

/// The edge that an argument comes over as a gradient; null: none.
static StringAttr getEdge(func::FuncOp function, unsigned i) {
  auto gradient =
      function.getArgAttrOfType<nn::GradientAttr>(i, nn::kGradientAttr);
  return gradient ? gradient.getEdge() : StringAttr();
}

/// Arguments of functions for which `nameOf` has a name, each once.
static Linear
getArgumentBytes(const stages::Sizes &sizes, ArrayRef<func::FuncOp> functions,
                 function_ref<StringAttr(func::FuncOp, unsigned)> nameOf) {
  Linear bytes;
  llvm::DenseSet<StringAttr> counted;
  for (func::FuncOp function : functions)
    for (unsigned i = 0; function && i < function.getNumArguments(); ++i)
      if (StringAttr name = nameOf(function, i))
        if (counted.insert(name).second)
          bytes += sizes.bytesOfItem(function.getArgumentTypes()[i]);
  return bytes;
}

Linear getInputBytes(dist::ModuleOp module, const stages::Sizes &sizes) {
  return getArgumentBytes(sizes, dist::getFunctions(module).getBackwards(),
                          getInput);
}

static bool hasHalves(const dist::Functions &functions) {
  return functions.input && functions.weight;
}

Linear getKeptToWeights(dist::ModuleOp module, const stages::Sizes &sizes) {
  dist::Functions functions = dist::getFunctions(module);
  func::FuncOp forward = functions.forward, weight = functions.weight;
  if (!hasHalves(functions))
    return getResidualBytes(sizes, forward) + getInputBytes(module, sizes);
  Linear bytes = getArgumentBytes(sizes, weight, getInput);
  // The forward's residuals have the first numbers.
  int64_t count = 0;
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    count += forward.getResultAttr(i, nn::kResidualAttr) != nullptr;
  for (unsigned i = 0; i < weight.getNumArguments(); ++i) {
    auto number = weight.getArgAttrOfType<IntegerAttr>(i, nn::kResidualAttr);
    if (number && number.getInt() < count)
      bytes += sizes.bytesOfItem(weight.getArgumentTypes()[i]);
  }
  return bytes;
}

Linear getGradientBytes(dist::ModuleOp module, const stages::Sizes &sizes) {
  return getArgumentBytes(sizes, dist::getFunctions(module).weight, getEdge);
}

/// Outputs that some module takes, or those that none does.
static Linear getOutputBytes(dist::ModuleOp module, const stages::Sizes &sizes,
                             bool taken) {
  llvm::StringSet<> sent;
  for (auto edge :
       module->getParentOfType<mlir::ModuleOp>().getOps<dist::EdgeOp>())
    if (edge.getSource() == module.getSymName())
      sent.insert(edge.getOutput());
  Linear bytes;
  func::FuncOp forward = dist::getFunctions(module).forward;
  for (unsigned i = 0; forward && i < forward.getNumResults(); ++i) {
    auto name = forward.getResultAttrOfType<StringAttr>(i, nn::kNameAttr);
    if (name && sent.contains(name) == taken)
      bytes += sizes.bytesOfItem(forward.getResultTypes()[i]);
  }
  return bytes;
}

/// Inputs that come over no edge and that only the forward reads.
static Linear getPassingInputBytes(dist::ModuleOp module,
                                   const stages::Sizes &sizes) {
  llvm::StringSet<> others;
  for (auto edge :
       module->getParentOfType<mlir::ModuleOp>().getOps<dist::EdgeOp>())
    if (edge.getTarget() == module.getSymName())
      others.insert(edge.getInput());
  dist::Functions functions = dist::getFunctions(module);
  for (func::FuncOp function : functions.getBackwards())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto name = function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr))
        others.insert(name.getValue());
  Linear bytes;
  func::FuncOp forward = functions.forward;
  for (unsigned i = 0; forward && i < forward.getNumArguments(); ++i) {
    auto name = forward.getArgAttrOfType<StringAttr>(i, nn::kNameAttr);
    if (name && !others.contains(name))
      bytes += sizes.bytesOfItem(forward.getArgumentTypes()[i]);
  }
  return bytes;
}

Linear getPassingBytes(dist::ModuleOp module, const stages::Sizes &sizes) {
  return getOutputBytes(module, sizes, /*taken=*/false) +
         getPassingInputBytes(module, sizes);
}

namespace {

/// Values that are there at once in a function and in what it calls.
class ScratchReader {
public:
  ScratchReader(dist::ModuleOp module, const stages::Sizes &sizes, bool whole)
      : module(module), sizes(sizes), whole(whole) {}

  /// `kept`: results that stay inside, if halves are read as one.
  Linear read(func::FuncOp function, const llvm::BitVector &kept) {
    auto [known, fresh] = peaks.try_emplace(function);
    if (!fresh || function.isExternal())
      return known->second;
    Block &body = function.getBody().front();
    Operation *end = body.getTerminator();
    LastUses last;
    for (Operation &op : body)
      for (auto [i, operand] : llvm::enumerate(op.getOperands()))
        if (&op != end || !kept[i])
          last[rootOf(operand)] = &op;
    Linear live, peak;
    llvm::DenseSet<Value> there;
    for (Operation &op : body.without_terminator()) {
      Linear made, madeWhole, dying, called;
      for (Value result : op.getResults()) {
        Value root = rootOf(result);
        if (!isLocal(root, last, end) || !there.insert(root).second)
          continue;
        Linear bytes = sizes.bytesOfItem(root.getType());
        made += bytes;
        // The whole of which the result is columns.
        if (root != result)
          madeWhole += bytes;
      }
      llvm::SetVector<Value> roots;
      for (Value operand : op.getOperands())
        roots.insert(rootOf(operand));
      for (Value root : roots)
        if (last.lookup(root) == &op && isLocal(root, last, end))
          dying += sizes.bytesOfItem(root.getType());
      if (auto call = dyn_cast<func::CallOp>(op))
        if (auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee()))
          called = read(callee, getKept(call, kept));
      // A kernel's result takes the place of what it reads last.
      Linear reused =
          isa<nn::FusedOp>(op) ? least(made - madeWhole, dying) : Linear();
      peak = most(peak, live + made - reused + called);
      live += made - dying;
    }
    return peaks[function] = peak;
  }
  Linear read(func::FuncOp function) {
    llvm::BitVector kept(function.getNumResults());
    bool isInput = whole && function == dist::getFunctions(module).input;
    for (unsigned i = 0; isInput && i < function.getNumResults(); ++i)
      kept[i] = function.getResultAttr(i, nn::kResidualAttr) != nullptr;
    return read(function, kept);
  }
  /// The most of all functions that were called.
  Linear getMostOfCalled() const {
    Linear result;
    for (auto &[function, peak] : peaks)
      if (func::FuncOp(function).isPrivate())
        result = most(result, peak);
    return result;
  }
  /// For the largest item.
  Linear most(const Linear &a, const Linear &b) const {
    return sizes.atMost(a) < sizes.atMost(b) ? b : a;
  }
  Linear least(const Linear &a, const Linear &b) const {
    return sizes.atMost(b) < sizes.atMost(a) ? b : a;
  }

private:
  /// What uses a value, or a view of it, last.
  using LastUses = llvm::DenseMap<Value, Operation *>;

  static llvm::BitVector getKept(func::CallOp call,
                                 const llvm::BitVector &kept) {
    llvm::BitVector result(call.getNumResults());
    for (unsigned i = 0; i < call.getNumResults(); ++i)
      result[i] = llvm::all_of(call.getResult(i).getUses(), [&](auto &use) {
        return use.getOwner()->template hasTrait<OpTrait::IsTerminator>() &&
               kept[use.getOperandNumber()];
      });
    return result;
  }
  /// What it is a view of, or columns.
  static Value rootOf(Value value) {
    while (Operation *view = value.getDefiningOp()) {
      auto slice = dyn_cast<nn::SliceOp>(view);
      if (!isa<nn::ReshapeOp>(view) && !(slice && nn::isReadInPlace(slice)))
        break;
      value = view->getOperand(0);
    }
    auto result = dyn_cast<OpResult>(value);
    auto columns = result ? nn::getColumns(result) : std::nullopt;
    return columns ? Value(columns->whole) : value;
  }
  /// Neither an argument nor a parameter, and nothing that goes out: that is
  /// made where it goes.
  static bool isLocal(Value root, const LastUses &last, Operation *end) {
    Operation *op = root.getDefiningOp();
    Operation *user = last.lookup(root);
    return op && !isa<nn::ReadOp>(op) && user && user != end &&
           !isa<nn::AccumulateOp>(user);
  }

  dist::ModuleOp module;
  const stages::Sizes &sizes;
  bool whole;
  llvm::DenseMap<func::FuncOp, Linear> peaks;
};

} // namespace

Linear getScratchBytes(dist::ModuleOp module, const stages::Sizes &sizes,
                       bool whole) {
  ScratchReader reader(module, sizes, whole);
  Linear most;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isPrivate())
      most = reader.most(most, reader.read(function));
  return most;
}

Linear getLayerScratchBytes(dist::ModuleOp module, const stages::Sizes &sizes) {
  ScratchReader reader(module, sizes, /*whole=*/true);
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isPrivate())
      reader.read(function);
  return reader.getMostOfCalled();
}

SlotBytes getSlotBytes(dist::ModuleOp module) {
  stages::Sizes sizes(module);
  dist::Functions functions = dist::getFunctions(module);
  Linear kept = getResidualBytes(sizes, functions.forward) +
                getInputBytes(module, sizes),
         sent = getOutputBytes(module, sizes, /*taken=*/true),
         gradients = getArgumentBytes(sizes, functions.getBackwards(), getEdge),
         toWeights =
             getKeptToWeights(module, sizes) + getGradientBytes(module, sizes);
  SlotBytes bytes;
  bytes.whole = toWeights.item;
  bytes.early = kept.item + sent.item + gradients.item - toWeights.item;
  bytes.late = getResidualBytes(sizes, functions.input).item;
  for (func::FuncOp function : functions.getBackwards())
    bytes.late += getResultBytes(sizes, function, nn::kGradientAttr).item;
  if (!hasHalves(functions))
    bytes = {0, bytes.all(), 0};
  double pieces = double(dist::Placement(module).sub);
  return {bytes.early * pieces, bytes.whole * pieces, bytes.late * pieces};
}

} // namespace dt::schedule
