//===- ImporterChecks.cpp - What a graph may not be -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Graphs that would train something else than the model, or that programs do
// not compute with, are refused here in the words of the user's file.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/Importer.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;

static std::string shapeOf(const onnx::Tensor &t) {
  return "[" +
         llvm::join(llvm::map_range(
                        t.dims, [](int64_t d) { return std::to_string(d); }),
                    ", ") +
         "]";
}

std::string models::AbsentFile::listed() const {
  constexpr size_t shown = 3;
  std::string names;
  for (const std::string &name : ArrayRef(weights).take_front(shown))
    names += (names.empty() ? "'" : ", '") + name + "'";
  return std::to_string(weights.size()) +
         (weights.size() == 1 ? " weight (" : " weights (") + names +
         (weights.size() > shown ? ", ...)" : ")");
}

/// A weight may be drawn or come from elsewhere; nothing else may.
LogicalResult Importer::checkAbsent() {
  std::vector<AbsentFile> files;
  for (const onnx::Tensor *t : uses->absent()) {
    if (t->mark != "PARAMETER" && !uses->isParameter(*t))
      return error("the value of initializer '" + t->name + "' lies in '" +
                   t->externalPath +
                   "', which does not exist, and it is no weight that could "
                   "be drawn");
    auto file = llvm::find_if(
        files, [&](auto &known) { return known.path == t->externalPath; });
    if (file == files.end())
      file = files.insert(
          file, {t->externalPath, t->externalPath == model.leftOut, {}});
    file->weights.push_back(t->name);
  }
  if (options.absent)
    *options.absent = std::move(files);
  else
    for (const AbsentFile &file : files)
      emitWarning(UnknownLoc::get(&context))
          << path << ": has no values for " << file.listed() << ": '"
          << file.path << "' "
          << (file.meant ? "was left out when it was exported"
                         : "does not exist");
  return success();
}

/// Names the first few; the weights that are left would train alone.
LogicalResult Importer::refuseFolded() {
  constexpr size_t shown = 3;
  ArrayRef<ParameterUses::Folded> folded = uses->folded();
  int64_t lost = 0, left = 0;
  for (const ParameterUses::Folded &f : folded)
    lost += f.tensor->numElements();
  for (const onnx::Tensor &t : model.graph.initializers)
    left += uses->isTrainable(t) ? t.numElements() : 0;
  const ParameterUses::Folded &first = folded[0];
  std::string others;
  for (const ParameterUses::Folded &f : folded.drop_front().take_front(shown))
    others += (others.empty() ? " (as do '" : ", '") + f.name + "'";
  if (folded.size() > shown + 1)
    others += " and " + std::to_string(folded.size() - shown - 1) + " more";
  others += others.empty() ? "" : ")";
  return nodeError(
      *first.user,
      "uses '" + first.name + "' " + shapeOf(*first.tensor) +
          ", a constant that looks like a weight which the exporter folded" +
          others + ": only " + Twine(left) + " of " + Twine(left + lost) +
          " numbers would train; export the model with models/export, or say "
          "which initializers train: --trainable=PATTERN, in a recipe the "
          "module's \"trainable\"");
}

LogicalResult Importer::checkWeights() {
  if (!uses->folded().empty())
    return refuseFolded();
  std::vector<std::string> unmatched = uses->unmatched();
  if (unmatched.empty())
    return success();
  std::vector<std::string> names = uses->candidates();
  return error("no weight matches '" + unmatched[0] + "' (trainable); " +
               (names.empty() ? "the graph has none that can train"
                              : "there are " + std::to_string(names.size()) +
                                    ", e.g. '" + names[0] + "'"));
}

/// A matrix read in two places is tied; a vector is more likely two equal ones
/// that an exporter merged, unless the file says that the module has it so.
LogicalResult Importer::reportShared() {
  for (const ParameterUses::Shared &s : uses->shared()) {
    std::string both = "'" + s.first->name + "' (" + s.first->op + ", in " +
                       s.firstScope + ") and '" + s.second->name + "' (" +
                       s.second->op + ", in " + s.secondScope + ")";
    if (s.tensor->dims.size() == 1 && !s.tensor->shared)
      return nodeError(*s.second,
                       "uses parameter '" + s.tensor->name + "', which node '" +
                           s.first->name + "' in " + s.firstScope +
                           " uses too: the exporter has merged parameters "
                           "that were equal; export the model with "
                           "models/export");
    if (s.tensor->dims.size() > 0)
      emitRemark(locationOf(*s.second))
          << path << ": parameter '" << s.tensor->name
          << "' is taken as tied: used by " << both;
  }
  return success();
}

/// "node 'x'" of a location that locationOf made.
static std::string nameOf(Location loc) {
  if (auto fused = dyn_cast<FusedLoc>(loc))
    loc = fused.getLocations().front();
  if (auto name = dyn_cast<NameLoc>(loc))
    return "node '" + name.getName().str() + "'";
  return "a node";
}

/// A size that is no symbol of an input depends on data: the number of places
/// that a NonZero found. It may be a dim of a result, or a number in one
/// (`Shape` of the places).
LogicalResult Importer::checkSizes(func::FuncOp function) {
  auto check = [&](Operation *at, const DimExpr &size, StringRef what) {
    for (const std::string &s : size.symbols())
      if (!symbols.contains(s))
        return error(nameOf(at->getLoc()) + ": its result's " + what + " " +
                     size.str() + " depends on data" +
                     (StringRef(s).starts_with("nonzero.")
                          ? ": how many places a NonZero finds is not known "
                            "at compile time"
                          : ""));
    return success();
  };
  auto checkElement = [&](Operation *op, Type type,
                          StringRef what) -> LogicalResult {
    auto tensor = dyn_cast<RankedTensorType>(type);
    bool product =
        isa<nn::MatmulOp, nn::LinearOp, nn::ConvOp, nn::AttentionOp>(op);
    if (!tensor || !tensor.getElementType().isF64() || !product)
      return success();
    return error(nameOf(op->getLoc()) + ": its " + what +
                 " is float64, in which products are not computed; export the "
                 "model in float32 (PyTorch: model.float())");
  };
  WalkResult result = function.walk([&](Operation *op) {
    if (auto size = dyn_cast<nn::SizeOp>(op)) {
      if (failed(check(op->getParentOp(), size.getSize(), "value")))
        return WalkResult::interrupt();
    }
    // What a function takes may be read without a result of that type.
    if (!isa<func::ReturnOp>(op))
      for (Value operand : op->getOperands())
        if (isa<BlockArgument>(operand) &&
            failed(checkElement(op, operand.getType(), "input")))
          return WalkResult::interrupt();
    for (Type type : op->getResultTypes())
      if (failed(checkElement(op, type, "result")))
        return WalkResult::interrupt();
      else if (isa<RankedTensorType>(type))
        for (const DimExpr &d : nn::getShape(type))
          if (failed(check(op, d, "size")))
            return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
