//===- ItemSizes.cpp - What an item brings to a size ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/schedule/ItemSizes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;

namespace dt::schedule {

using planner::Linear;

Sizes::Sizes(dist::ModuleOp module,
             llvm::function_ref<Share(nn::DimOp)> shareOfItem, double most)
    : most(most) {
  for (auto dim : module.getOps<nn::DimOp>())
    if (dim.getItem())
      items[dim.getSymName()] = shareOfItem(dim);
    else
      fixed[dim.getSymName()] = double(dim.getMax().value_or(0));
}

Sizes::Sizes(dist::ModuleOp module)
    : Sizes(module, [](nn::DimOp dim) {
        return Share{double(dim.getMax().value_or(0)), 0};
      }) {}

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

/// A product of more than two sums of tokens is taken of the largest item.
Linear Sizes::ofItem(const nn::DimExpr &size) const {
  Linear total;
  for (const nn::DimExpr::Term &term : size.terms()) {
    Linear product = planner::perItem(double(term.coefficient));
    bool counts = false;
    for (const std::string &symbol : term.symbols) {
      auto item = items.find(symbol);
      counts |= item != items.end();
      Share share =
          item == items.end() ? Share{fixed.lookup(symbol), 0} : item->second;
      product = {product.item * share.each,
                 product.token * share.each + product.item * share.token,
                 product.square * (share.each + share.token * most) +
                     product.token * share.token};
    }
    if (counts)
      total += product;
  }
  return total;
}

Linear Sizes::bytesOfItem(Type type) const {
  return isa<RankedTensorType>(type) ? ofItem(nn::getNumBytes(type)) : Linear();
}

dist::MeasureOp getTokens(mlir::ModuleOp program, StringRef kind) {
  for (auto measure : program.getOps<dist::MeasureOp>())
    if (measure.getKind() == kind)
      return measure;
  return {};
}

dist::MeasureOp getTokens(dist::ModuleOp module) {
  StringRef own = module.getItem().value_or("");
  bool isUsed = llvm::any_of(module.getOps<nn::DimOp>(), [&](nn::DimOp dim) {
    return dim.getItem() == own && dim.getMeasure();
  });
  return isUsed ? getTokens(module->getParentOfType<mlir::ModuleOp>(), own)
                : dist::MeasureOp();
}

Sizes getSizesOfItem(dist::ModuleOp module) {
  auto program = module->getParentOfType<mlir::ModuleOp>();
  StringRef own = module.getItem().value_or("");
  dist::MeasureOp tokens = getTokens(module);
  double most = tokens ? double(tokens.getMax()) : 0;
  auto share = [&](nn::DimOp dim) -> Sizes::Share {
    auto largest = double(dim.getLargest().value_or(1));
    if (*dim.getItem() == own && !dim.getMeasure())
      return {1, 0};
    if (*dim.getItem() != own && own != dist::kSample)
      return {largest, 0};
    double all = *dim.getItem() == own
                     ? largest
                     : double(dist::getMostOfSample(program, dim).value_or(1));
    return most > 0 ? Sizes::Share{0, all / most} : Sizes::Share{all, 0};
  };
  return Sizes(module, share, most > 0 ? most : 1);
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
  return double(*dim.getMax()) /
         double(std::max<int64_t>(1, dim.getLargest().value_or(1)));
}

} // namespace dt::schedule
