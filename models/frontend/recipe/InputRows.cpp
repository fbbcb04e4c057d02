//===- InputRows.cpp - Inputs whose rows add a measure up -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/Inputs.h"

#include "dialects/nn/NNOps.h"
#include "runtime/data/Config.h"

using namespace mlir;

namespace dt::models {

namespace {

using rt::data::Config;
using rt::data::InputEntry;

/// Whether a size is `factor` times a measure, added up.
bool adds(const nn::DimExpr &size, int64_t factor, StringRef quantity,
          dist::ModuleOp module) {
  auto symbols = size.symbols();
  auto dim = symbols.size() == 1 ? module.lookupSymbol<nn::DimOp>(symbols[0])
                                 : nn::DimOp();
  return dim && dim.getQuantity() == quantity &&
         size == nn::DimExpr::symbol(symbols[0]) * nn::DimExpr(factor);
}

std::string isInstead(dist::ModuleOp module, BlockArgument argument) {
  auto name = dist::ModuleOp::getArgumentName(module.getForward(),
                                              argument.getArgNumber());
  nn::Shape shape = nn::getShape(cast<RankedTensorType>(argument.getType()));
  return ("], but '" + name + "' of module '" + module.getSymName() + "' is " +
          nn::shapeToString(shape))
      .str();
}

/// Tokens of a part's samples, one after another.
std::string describeWrongTokens(const InputEntry &entry, dist::ModuleOp module,
                                BlockArgument argument) {
  nn::Shape shape = nn::getShape(cast<RankedTensorType>(argument.getType()));
  size_t axes = entry.ofPictures ? 3 : 2;
  bool same = shape.size() == axes && shape[axes - 2] == nn::DimExpr(1) &&
              adds(shape[axes - 1], 1, rt::kSampleTokens, module) &&
              (axes == 2 || shape[0] == nn::DimExpr(3));
  if (same)
    return {};
  std::string tokens = rt::kSampleTokens;
  return "makes [" + std::string(entry.ofPictures ? "3, " : "") + "1, " +
         tokens + isInstead(module, argument) +
         "; expected a graph of one row, whose " +
         (entry.ofPictures ? "last" : "second") + " dim is " + tokens +
         " in \"dims\"";
}

/// Rows of pictures of any size, one picture behind another.
std::string describeWrongSquares(const InputEntry &entry, const Config &config,
                                 dist::ModuleOp module,
                                 BlockArgument argument) {
  nn::Shape shape = nn::getShape(cast<RankedTensorType>(argument.getType()));
  const rt::data::PictureKind &kind = config.pictures[size_t(entry.picture)];
  std::string quantity = kind.name + "." + kind.measure, made = quantity;
  if (entry.perSquare > 1)
    made = std::to_string(entry.perSquare) + "*" + quantity;
  bool same = shape.size() == entry.shape.size() + 1 &&
              adds(shape[0], entry.perSquare, quantity, module);
  for (size_t axis = 0; axis < entry.shape.size(); ++axis) {
    made += ", " + std::to_string(entry.shape[axis]);
    same = same && shape[axis + 1].asConstant() == entry.shape[axis];
  }
  if (same)
    return {};
  return "makes [" + made + isInstead(module, argument) +
         "; expected a graph whose first dim is so many rows, with a dim that "
         "is " +
         quantity + " in \"dims\"";
}

} // namespace

std::string describeWrongRows(const InputEntry &entry, const Config &config,
                              dist::ModuleOp module, BlockArgument argument) {
  return entry.perSquare ? describeWrongSquares(entry, config, module, argument)
                         : describeWrongTokens(entry, module, argument);
}

} // namespace dt::models
