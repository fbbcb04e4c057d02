//===- Denominator.h - What a loss is divided by ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_DENOMINATOR_H
#define PASSES_MODULES_DENOMINATOR_H

#include "dialects/nn/NNOps.h"

#include <limits>
#include <optional>

namespace dt::modules {

/// scale * (max(D, atLeast) + plus), where D is the sum over all parts of
/// `value`, or, if that is null, of `count`.
struct Denominator {
  mlir::Value value;
  nn::DimExpr count = 0;
  double atLeast = -std::numeric_limits<double>::infinity(), plus = 0,
         scale = 1;

  /// The same with what follows applied to it; `factor` > 0.
  Denominator max(double bound) const;
  Denominator add(double number) const;
  Denominator times(double factor) const;
};

/// Takes off a value of one element what is applied to the whole sum: bounds
/// from below, numbers added, factors. What is left may be no sum over items.
Denominator readDenominator(mlir::Value value);

/// D is a number of things for any input: whole and not negative.
bool isNatural(const Denominator &denominator);

/// Whether a condition (one bool) holds exactly if D != 0 (true), exactly if
/// D == 0 (false), or neither is proven. D must be natural.
std::optional<bool> readZeroTest(mlir::Value condition,
                                 const Denominator &denominator);

} // namespace dt::modules

#endif // PASSES_MODULES_DENOMINATOR_H
