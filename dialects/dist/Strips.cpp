//===- Strips.cpp - Collectives and products in strips of rows ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/Strips.h"

#include <numeric>

using namespace mlir;
using namespace dt;
using namespace dt::dist;
using nn::DimExpr;

std::optional<StripedRows>
dt::dist::getStripedRows(CollectiveOpInterface collective) {
  std::optional<DimCut> taken = collective.getTakenCut(),
                        given = collective.getGivenCut();
  nn::Shape part = nn::getShape(taken ? collective.getInput().getType()
                                      : collective.getResult().getType());
  if ((taken && given) || part.size() < 2)
    return std::nullopt;
  ArrayRef<DimExpr> dims = ArrayRef<DimExpr>(part).drop_back();
  StripedRows result{1, nn::getNumElements(dims), 1, 0};
  if (taken || given) {
    DimCut cut = taken ? *taken : *given;
    if (cut.dim >= dims.size())
      return std::nullopt;
    DimExpr chunk(cut.chunk);
    result.outer = getBlockRows(part, cut);
    result.rows = chunk * nn::getNumElements(dims.drop_front(cut.dim + 1));
  }
  for (const DimExpr::Term &term : result.rows.terms())
    result.count = std::gcd(result.count, term.coefficient);
  if (result.count < 1)
    return std::nullopt;
  result.unit = *result.rows.exactDiv(DimExpr(result.count));
  return result;
}

SmallVector<nn::LinearOp>
dt::dist::getProductsBeside(CollectiveOpInterface collective) {
  SmallVector<nn::LinearOp> products;
  std::optional<StripedRows> rows = getStripedRows(collective);
  if (!rows || rows->count < 2)
    return products;
  if (collective.getForm().gathers) {
    for (OpOperand &use : collective.getResult().getUses())
      if (auto product = dyn_cast<nn::LinearOp>(use.getOwner());
          product && use.get() == product.getInput() &&
          use.get() != product.getWeight())
        products.push_back(product);
    // Uses stand in no order of the program.
    llvm::sort(products, [](nn::LinearOp a, nn::LinearOp b) {
      return a->isBeforeInBlock(b);
    });
    return products;
  }
  if (!collective.getForm().combines)
    return products;
  auto product = collective.getInput().getDefiningOp<nn::LinearOp>();
  if (!product || !product->hasOneUse())
    return products;
  // A product is cut for what it takes or for what it makes.
  auto gather = product.getInput().getDefiningOp<CollectiveOpInterface>();
  if (!gather || !gather.getStrips())
    products.push_back(product);
  return products;
}

int64_t dt::dist::getNumStrips(CollectiveOpInterface collective) {
  std::optional<uint64_t> strips = collective.getStrips();
  std::optional<StripedRows> rows = getStripedRows(collective);
  return strips && rows ? std::min(int64_t(*strips), rows->count) : 1;
}
