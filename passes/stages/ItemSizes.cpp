//===- ItemSizes.cpp - What an item brings to a size ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/stages/ItemSizes.h"

#include <algorithm>

using namespace mlir;

namespace dt::stages {

using planner::Linear;

Sizes::Sizes(dist::ModuleOp module,
             llvm::function_ref<Share(nn::DimOp)> shareOfItem, Most most)
    : most(most) {
  for (auto dim : module.getOps<nn::DimOp>())
    if (dim.getItem())
      items[dim.getSymName()] = shareOfItem(dim);
    else
      fixed[dim.getSymName()] = double(dim.getMax().value_or(0));
}

Sizes::Sizes(dist::ModuleOp module)
    : Sizes(
          module,
          [](nn::DimOp dim) { return Share{double(dim.getMax().value_or(0))}; },
          {1, 0}) {}

double Sizes::ofNothing(const nn::DimExpr &size) const {
  double total = 0;
  for (const nn::DimExpr::Term &term : size.terms()) {
    double product = double(term.coefficient);
    for (const std::string &symbol : term.symbols)
      product *= items.contains(symbol) ? 0 : fixed.lookup(symbol);
    total += product;
  }
  return total;
}

/// A product of more than two sums of measures is taken of the largest item.
Linear Sizes::ofItem(const nn::DimExpr &size) const {
  Linear total;
  for (const nn::DimExpr::Term &term : size.terms()) {
    Linear product = planner::perItem(double(term.coefficient));
    bool counts = false;
    for (const std::string &symbol : term.symbols) {
      auto item = items.find(symbol);
      counts |= item != items.end();
      Share share =
          item == items.end() ? Share{fixed.lookup(symbol)} : item->second;
      double largest =
          share.each + share.token * most.tokens + share.other * most.other;
      product = {product.item * share.each,
                 product.token * share.each + product.item * share.token,
                 product.square * largest + product.token * share.token,
                 product.other * share.each + product.item * share.other,
                 product.product * largest + product.token * share.other +
                     product.other * share.token,
                 product.otherSquare * largest + product.other * share.other};
    }
    if (counts)
      total += product;
  }
  return total;
}

Linear Sizes::bytesOfItem(Type type) const {
  return isa<RankedTensorType>(type) ? ofItem(nn::getNumBytes(type)) : Linear();
}

KindMeasures getMeasures(mlir::ModuleOp program, StringRef kind) {
  KindMeasures known;
  for (auto measure : program.getOps<dist::MeasureOp>()) {
    if (measure.getKind() != kind)
      continue;
    bool isFirst = kind == dist::kSample && measure.getName() == "tokens";
    if (isFirst && known.tokens) {
      known.other = known.tokens;
      known.tokens = measure;
    } else if (!known.tokens) {
      known.tokens = measure;
    } else if (!known.other) {
      known.other = measure;
    }
  }
  return known;
}

KindMeasures getMeasures(dist::ModuleOp module) {
  StringRef own = module.getItem().value_or("");
  KindMeasures known =
      getMeasures(module->getParentOfType<mlir::ModuleOp>(), own);
  bool addsTokens = false, addsOther = false;
  for (auto dim : module.getOps<nn::DimOp>()) {
    if (dim.getItem() != own || !dim.getMeasure())
      continue;
    bool isOther = known.other && dim.getMeasure() == known.other.getName();
    (isOther ? addsOther : addsTokens) = true;
  }
  return {addsTokens ? known.tokens : dist::MeasureOp(),
          addsOther ? known.other : dist::MeasureOp()};
}

Sizes getSizesOfItem(dist::ModuleOp module) {
  auto program = module->getParentOfType<mlir::ModuleOp>();
  StringRef own = module.getItem().value_or("");
  KindMeasures measures = getMeasures(module);
  Sizes::Most most{measures.tokens ? double(measures.tokens.getMax()) : 0,
                   measures.other ? double(measures.other.getMax()) : 0};
  auto inProportion = [&](double all) -> Sizes::Share {
    if (most.tokens > 0)
      return {0, all / most.tokens};
    return most.other > 0 ? Sizes::Share{0, 0, all / most.other}
                          : Sizes::Share{all};
  };
  auto share = [&](nn::DimOp dim) -> Sizes::Share {
    auto multiple = double(dim.getMultiple()),
         largest = double(dim.getLargest().value_or(1)) / multiple;
    bool isOwn = *dim.getItem() == own;
    if (isOwn && !dim.getMeasure())
      return {1 / multiple};
    if (isOwn && measures.other &&
        *dim.getMeasure() == measures.other.getName())
      return {0, 0, largest / most.other};
    if (isOwn)
      return inProportion(largest);
    if (own != dist::kSample)
      return {largest};
    return inProportion(
        double(dist::getMostOfSample(program, dim).value_or(1)) / multiple);
  };
  if (most.tokens <= 0 && most.other <= 0)
    return Sizes(module, share, {1, 0});
  return Sizes(module, share, most);
}

nn::DimOp getMainDim(dist::ModuleOp module, StringRef kind) {
  nn::DimOp main;
  for (auto dim : module.getOps<nn::DimOp>())
    if (dim.getItem() == kind && dim.getMax().value_or(0) > 0 &&
        (!main || (dim.getMeasure() && !main.getMeasure())))
      main = dim;
  return main;
}

double countItems(nn::DimOp dim) {
  return double(*dim.getBound()) /
         double(std::max<int64_t>(1, dim.getLargest().value_or(1)));
}

} // namespace dt::stages
