//===- DistVerify.cpp - What makes a program of modules well-formed -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Checks that need no analysis of the functions inside the modules; those are
// the business of the phase verifiers in passes/.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"

#include "dialects/nn/NNOps.h"

#include <cmath>

using namespace mlir;

namespace dt::dist {

namespace {

/// An op of the same kind and name earlier in the block is a mistake.
template <typename OpT> LogicalResult verifyFirst(OpT op) {
  for (Operation *other = op->getPrevNode(); other;
       other = other->getPrevNode())
    if (auto same = dyn_cast<OpT>(other);
        same && same.getName() == op.getName())
      return op.emitOpError("is the second one named '") << op.getName() << "'";
  return success();
}

template <typename OpT> LogicalResult verifyOnly(OpT op) {
  for (Operation *other = op->getPrevNode(); other;
       other = other->getPrevNode())
    if (isa<OpT>(other))
      return op.emitOpError("stands twice; a program has one");
  return success();
}

dist::ModuleOp lookupModule(Operation *from, SymbolTableCollection &tables,
                            FlatSymbolRefAttr name) {
  auto module = tables.lookupNearestSymbolFrom<dist::ModuleOp>(from, name);
  if (!module)
    from->emitOpError("names the module ") << name << ", which does not exist";
  return module;
}

/// What a symbol of the module adds up, "" if it is unbound or does not exist.
std::string getQuantityOf(dist::ModuleOp module, StringRef symbol) {
  auto dim = module.lookupSymbol<nn::DimOp>(symbol);
  return dim ? dim.getQuantity() : std::string();
}

/// Rewrites a dim over a module's symbols to one over what they add up, so that
/// dims of two modules compare.
nn::DimExpr overItems(dist::ModuleOp module, const nn::DimExpr &dim) {
  nn::DimExpr rows = dim;
  for (const std::string &symbol : dim.symbols())
    if (auto own = module.lookupSymbol<nn::DimOp>(symbol))
      rows = rows.exactDiv(int64_t(own.getMultiple())).value_or(rows);
  return rows.substitute([&](StringRef symbol) -> std::optional<nn::DimExpr> {
    std::string quantity = getQuantityOf(module, symbol);
    return nn::DimExpr::symbol(quantity.empty() ? symbol.str() : quantity);
  });
}

LogicalResult verifyEdgeTypes(EdgeOp edge, dist::ModuleOp from, Type output,
                              dist::ModuleOp to, Type input) {
  auto print = [](dist::ModuleOp module, Type type) {
    std::string text;
    llvm::raw_string_ostream os(text);
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor) {
      os << type;
      return text;
    }
    nn::Shape shape = nn::getShape(tensor);
    for (nn::DimExpr &dim : shape)
      dim = overItems(module, dim);
    os << nn::shapeToString(shape) << " of " << tensor.getElementType();
    return text;
  };
  auto mismatch = [&]() {
    return edge.emitOpError("connects '")
           << edge.getOutput() << "' of '" << edge.getSource() << "', "
           << print(from, output) << ", to '" << edge.getInput() << "' of '"
           << edge.getTarget() << "', " << print(to, input)
           << "; element types and dims must be equal";
  };
  auto source = dyn_cast<RankedTensorType>(output);
  auto target = dyn_cast<RankedTensorType>(input);
  if (!source || !target ||
      source.getElementType() != target.getElementType() ||
      source.getRank() != target.getRank())
    return mismatch();
  nn::Shape a = nn::getShape(source), b = nn::getShape(target);
  bool gathersBatch = to.getWholeBatch() && !from.getWholeBatch();
  for (auto [i, pair] : llvm::enumerate(llvm::zip(a, b))) {
    auto [x, y] = pair;
    // The rows of all microbatches: axis 0 may well be numbers on both sides.
    if (gathersBatch && i == 0)
      continue;
    if (overItems(from, x) != overItems(to, y))
      return mismatch();
  }
  return success();
}

bool isF32Scalar(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 0 && tensor.getElementType().isF32();
}

LogicalResult verifyNotNegative(Operation *op, StringRef what, double value) {
  if (std::isfinite(value) && value >= 0)
    return success();
  return op->emitOpError() << what << " must be a number that is not negative";
}

} // namespace

LogicalResult DistDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  StringRef name = attribute.getName();
  auto parameter = dyn_cast<nn::ParameterOp>(op);
  if (name == kLayoutAttr && parameter) {
    auto layout = dyn_cast<LayoutAttr>(attribute.getValue());
    if (layout && ArrayRef(layout.getLocalShape()) ==
                      cast<RankedTensorType>(parameter.getType()).getShape())
      return success();
    return op->emitOpError("'")
           << name << "' is a #dist.layout whose local shape is that of the "
           << "parameter's type";
  }
  if (name == kPartialGradientAttr && parameter) {
    auto cuts = dyn_cast<ArrayAttr>(attribute.getValue());
    if (cuts && llvm::all_of(cuts, llvm::IsaPred<CutAttr>))
      return success();
    return op->emitOpError("'") << name << "' is a list of #dist.cut";
  }
  auto hint = dyn_cast<StringAttr>(attribute.getValue());
  if (name == kCutHintAttr && parameter && hint &&
      llvm::is_contained({"rows", "whole"}, hint.getValue()))
    return success();
  return op->emitOpError("'")
         << name << "' is no attribute of it, or not with this value";
}

/// Of an argument or a result of a function.
static LogicalResult verifyMark(Operation *op, unsigned index,
                                NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if ((name == kLayoutAttr && isa<LayoutAttr>(attribute.getValue())) ||
      (name == kUnjoinedAttr && isa<UnitAttr>(attribute.getValue())))
    return success();
  return op->emitOpError("argument or result ")
         << index << ": '" << name
         << "' is no attribute of it, or not with this value";
}

LogicalResult DistDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned index,
                                                    NamedAttribute attribute) {
  return verifyMark(op, index, attribute);
}

LogicalResult DistDialect::verifyRegionResultAttribute(
    Operation *op, unsigned, unsigned index, NamedAttribute attribute) {
  return verifyMark(op, index, attribute);
}

/// What a module's attributes must be together.
static LogicalResult verifyPlacement(dist::ModuleOp module) {
  Placement placement(module);
  for (auto [name, narrow] :
       {std::pair("narrow_residual", module.getNarrowResidual()),
        std::pair("narrow_gradients", module.getNarrowGradients())})
    if (narrow && !module.isBF16())
      return module.emitOpError("'")
             << name << "' is for modules with precision bf16";
  if (module.getWholeBatch()) {
    auto refuse = [&](StringRef name, StringRef why) {
      return module.emitOpError("'") << name << "' is not for a module that "
                                     << "runs over the whole batch: " << why;
    };
    if (module.getPrecision())
      return refuse("precision", "it is float32");
    if (placement.sub > 1)
      return refuse("sub", "it has no pieces");
    if (module.getSpan() > 1)
      return refuse("span", "it runs once a step");
    if (module.getSpeeds())
      return refuse("speeds", "all its ranks do the same");
    return success();
  }
  if (module.getSpeeds() && int64_t(placement.speeds.size()) != placement.dp)
    return module.emitOpError("'speeds' has ")
           << placement.speeds.size() << " numbers for " << placement.dp
           << " replicas";
  auto ranks = int64_t(placement.ranks.size());
  if (module.getRanks() && ranks != placement.group * placement.dp)
    return module.emitOpError("'ranks' names ")
           << ranks << " ranks; tp " << module.getTp() << ", cp "
           << module.getCp() << " and dp " << placement.dp << " make "
           << placement.group * placement.dp;
  return success();
}

LogicalResult ModuleOp::verify() {
  for (NamedAttribute other : (*this)->getDiscardableAttrs())
    if (!other.getNameDialect())
      return emitOpError("has no attribute '")
             << other.getName().getValue() << "'";
  for (Operation &op : getBody().front())
    if (!isa<nn::DimOp, nn::ParameterOp, nn::AdapterOp, func::FuncOp,
             ForwardOp>(op) &&
        op.getName().getDialectNamespace() != "rt")
      return emitOpError("holds '") << op.getName()
                                    << "'; a module has nn.dim, nn.parameter, "
                                       "nn.adapter and functions";
  if (failed(verifyPlacement(*this)))
    return failure();
  auto forward = getForward();
  if (!forward)
    return success();
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    StringRef name = getArgumentName(forward, i);
    if (!name.empty() && *findArgument(forward, name) != i)
      return emitOpError("has two inputs named '") << name << "'";
  }
  for (unsigned i = 0; i < forward.getNumResults(); ++i) {
    StringRef name = getResultName(forward, i);
    if (!name.empty() && *findResult(forward, name) != i)
      return emitOpError("has two outputs named '") << name << "'";
  }
  return success();
}

LogicalResult ForwardOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto module = (*this)->getParentOfType<dist::ModuleOp>();
  if (getBackward() && (getInput() || getWeight()))
    return emitOpError("has a backward function and half of one");
  Operation *forward = nullptr;
  for (FlatSymbolRefAttr name :
       {getForwardAttr(), getBackwardAttr(), getInputAttr(), getWeightAttr(),
        getPlainAttr()}) {
    if (!name)
      continue;
    auto function = dyn_cast_or_null<FunctionOpInterface>(
        tables.lookupSymbolIn(module, name));
    if (!function)
      return emitOpError("names ")
             << name << ", which is no function of @" << module.getSymName();
    forward = forward ? forward : function.getOperation();
    if (function->getName() != forward->getName())
      return emitOpError("names ") << name << ", a " << function->getName()
                                   << ", beside a " << forward->getName();
  }
  for (Operation *op = (*this)->getPrevNode(); op; op = op->getPrevNode())
    if (auto other = dyn_cast<ForwardOp>(op);
        other && other.getForward() == getForward())
      return emitOpError("is the second one of ") << getForwardAttr();
  return success();
}

LogicalResult ItemOp::verify() {
  if (getName() == kSample)
    return emitOpError("'sample' always exists and is not declared");
  if (static_cast<int64_t>(getMax()) < 1)
    return emitOpError("needs a max of at least 1");
  return verifyFirst(*this);
}

LogicalResult MeasureOp::verify() {
  auto program = (*this)->getParentOfType<mlir::ModuleOp>();
  if (!getItemMax(program, getKind()))
    return emitOpError("is of '") << getKind() << "', which is no kind of item";
  for (auto other : program.getOps<MeasureOp>())
    if (other != *this && other->isBeforeInBlock(*this) &&
        other.getName() == getName() && other.getKind() == getKind())
      return emitOpError("is the second one named '")
             << getName() << "' of '" << getKind() << "'";
  if (int64_t(getMax()) < 1 || int64_t(getPart().value_or(1)) < 1 ||
      int64_t(getMultiple()) < 1)
    return emitOpError("needs bounds, and a multiple, of at least 1");
  return success();
}

LogicalResult InputOp::verify() { return verifyFirst(*this); }
LogicalResult DataOp::verify() { return verifyOnly(*this); }
LogicalResult DimsOp::verify() { return verifyOnly(*this); }
LogicalResult SeedOp::verify() { return verifyOnly(*this); }

LogicalResult BatchOp::verify() {
  if (static_cast<int64_t>(getMicro()) < 1 || getGlobal() < getMicro())
    return emitOpError("needs 1 <= micro <= global");
  int64_t parts = getParts().value_or(1);
  if (parts < 1 || int64_t(getTokens().value_or(1)) < 1 ||
      int64_t(getGlobal()) % parts != 0)
    return emitOpError("needs as many samples and tokens in each of its parts");
  return verifyOnly(*this);
}

LogicalResult PlanOp::verify() {
  if (static_cast<int64_t>(getRanks()) < 1)
    return emitOpError("needs at least 1 rank");
  if (!rt::fromText<rt::Reorder>(getReorder()))
    return emitOpError("reorder '")
           << getReorder() << "' is none of " << listTexts<rt::Reorder>();
  if (static_cast<int64_t>(getBucket()) < 1)
    return emitOpError("needs a bucket of at least 1 byte");
  if (static_cast<int64_t>(getDepth()) < 1)
    return emitOpError("needs a depth of at least 1 microbatch");
  return verifyOnly(*this);
}

LogicalResult PlanOp::verifySymbolUses(SymbolTableCollection &) {
  auto program = cast<mlir::ModuleOp>((*this)->getParentOp());
  bool known = false;
  for (auto module : program.getOps<dist::ModuleOp>()) {
    Placement placement(module);
    known |= module.getSymName() == getPace() || placement.unit == getPace();
    for (int64_t rank : placement.ranks)
      if (rank >= static_cast<int64_t>(getRanks())) {
        InFlightDiagnostic diagnostic =
            emitOpError("has ") << getRanks() << " ranks, but @"
                                << module.getSymName() << " runs on " << rank;
        diagnostic.attachNote(module.getLoc()) << "this module";
        return diagnostic;
      }
  }
  if (!known)
    return emitOpError("names ")
           << getPaceAttr() << " as pace, which is no module or unit";
  return success();
}

/// Ends of a cut edge have equal parts, and as many ranks for each.
static LogicalResult verifyCut(EdgeOp edge, dist::ModuleOp source,
                               dist::ModuleOp target) {
  Placement a(source), b(target);
  if (!source.getWholeBatch() && !target.getWholeBatch() && a.unit == b.unit &&
      a.dp == b.dp && a.sub == b.sub && a.group == b.group &&
      source.getSpan() == target.getSpan())
    return success();
  return edge.emitOpError("is cut from '")
         << edge.getSource() << "' to '" << edge.getTarget()
         << "'; expected stages of one unit with as many ranks, replicas and "
            "slices";
}

LogicalResult EdgeOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto source = lookupModule(*this, tables, getSourceAttr());
  auto target = lookupModule(*this, tables, getTargetAttr());
  if (!source || !target)
    return failure();
  if (source == target)
    return emitOpError("connects a module to itself");
  for (Operation *op = getOperation()->getPrevNode(); op;
       op = op->getPrevNode())
    if (auto other = dyn_cast<EdgeOp>(op); other &&
                                           other.getTarget() == getTarget() &&
                                           other.getInput() == getInput())
      return emitOpError("is the second one into '") << getInput() << "'";
  if (getCut() && failed(verifyCut(*this, source, target)))
    return failure();
  auto from = source.getForward(), to = target.getForward();
  if (!from || !to)
    return success(); // after differentiation
  auto result = dist::ModuleOp::findResult(from, getOutput());
  if (!result)
    return emitOpError("takes '")
           << getOutput() << "', which is no output of " << getSourceAttr();
  auto argument = dist::ModuleOp::findArgument(to, getInput());
  if (!argument)
    return emitOpError("feeds '")
           << getInput() << "', which is no input of " << getTargetAttr();
  return verifyEdgeTypes(*this, source, from.getResultTypes()[*result], target,
                         to.getArgumentTypes()[*argument]);
}

LogicalResult TieOp::verifySymbolUses(SymbolTableCollection &tables) {
  Operation *program = (*this)->getParentOp();
  auto lookup = [&](SymbolRefAttr name) {
    auto op =
        dyn_cast_or_null<nn::ParameterOp>(tables.lookupSymbolIn(program, name));
    if (!op)
      emitOpError("names the parameter ") << name << ", which does not exist";
    return op;
  };
  auto alias = lookup(getAlias());
  auto parameter = lookup(getParameter());
  if (!alias || !parameter)
    return failure();
  if (alias == parameter)
    return emitOpError("ties a parameter to itself");
  if (alias.getType() != parameter.getType())
    return emitOpError("ties ")
           << alias.getType() << " to " << parameter.getType();
  for (auto other : cast<mlir::ModuleOp>(program).getOps<TieOp>()) {
    if (other != *this && other.getAlias() == getAlias())
      return emitOpError("ties ") << getAlias() << " a second time";
    if (other.getAlias() == getParameter())
      return emitOpError("ties to ")
             << getParameter() << ", which is itself tied; name its parameter "
             << other.getParameter();
  }
  return success();
}

LogicalResult LossOp::verify() {
  if ((getAtLeast() || getPlus()) && !getDenominator())
    return emitOpError("needs a denominator for 'at_least' and 'plus'");
  return verifyFirst(*this);
}

LogicalResult LossOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto module = lookupModule(*this, tables, getModuleAttr());
  if (!module)
    return failure();
  if (auto forward = module.getForward()) {
    auto result = dist::ModuleOp::findResult(forward, getNumerator());
    if (!result || !isF32Scalar(forward.getResultTypes()[*result]))
      return emitOpError("needs '")
             << getNumerator() << "' to be an output of " << getModuleAttr()
             << " of type tensor<f32>";
  }
  if (!getDenominator())
    return success();
  Operation *symbol = SymbolTable::lookupSymbolIn(module, *getDenominator());
  if (!symbol)
    return emitOpError("needs the function @")
           << *getDenominator() << " in " << getModuleAttr();
  auto function = dyn_cast<func::FuncOp>(symbol);
  if (function && (function.getNumResults() != 1 ||
                   !isF32Scalar(function.getResultTypes()[0])))
    return emitOpError("needs @")
           << *getDenominator() << " to give one tensor<f32>";
  return success();
}

LogicalResult OptimizerOp::verify() {
  auto value = [](const APFloat &f) { return f.convertToDouble(); };
  if (failed(verifyNotNegative(*this, "lr", value(getLr()))) ||
      failed(
          verifyNotNegative(*this, "weight_decay", value(getWeightDecay()))) ||
      failed(verifyNotNegative(*this, "clip", value(getClip()))) ||
      failed(verifyNotNegative(*this, "final_fraction",
                               value(getFinalFraction()))))
    return failure();
  if (std::string wrong = checkSettings(getKind(), getSettingsAttr());
      !wrong.empty())
    return emitOpError(wrong);
  for (const rt::OptimizerSetting &setting : rt::describe(getKind()).settings)
    if ((*this)->hasAttr(setting.name))
      return emitOpError() << "the kind's own '" << setting.name
                           << "' stands beside it: {" << setting.name
                           << " = …} lr …";
  if (!(value(getDecayFrom()) >= 0 && value(getDecayFrom()) <= 1))
    return emitOpError("decay_from is a fraction of the steps, 0 to 1");
  if (!(value(getAverageDecay()) >= 0 && value(getAverageDecay()) < 1))
    return emitOpError("average_decay must be in [0, 1)");
  if (static_cast<int64_t>(getWarmup()) < 0 ||
      static_cast<int64_t>(getTotalSteps()) < 0)
    return emitOpError("warmup and total_steps must not be negative");
  return verifyOnly(*this);
}

} // namespace dt::dist
