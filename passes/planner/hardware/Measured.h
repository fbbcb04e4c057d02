//===- Measured.h - Figures measured at several sizes -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What `tools/calibrate` writes into a cluster file (docs/calibration.md):
// rates by size. Between measured sizes logarithms of rates are interpolated
// linearly over logarithms of sizes; beyond the ends the nearest rate holds.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_HARDWARE_MEASURED_H
#define PASSES_PLANNER_HARDWARE_MEASURED_H

#include <array>
#include <vector>

namespace dt::planner {

/// Rates over one size.
class Curve {
public:
  /// As many rates as sizes, which ascend; all above 0.
  Curve(const std::vector<double> &sizes, const std::vector<double> &rates);
  double at(double size) const;
  /// All rates higher by a factor.
  Curve times(double factor) const;

private:
  friend class ProductRates;
  Curve() = default;
  std::vector<double> sizes, rates; ///< logarithms
};

/// FLOP/s of rows x depth by depth x columns products on a grid of them.
class ProductRates {
public:
  /// Rows, columns, depths, each ascending; a rate for each of all three, of
  /// which the last varies fastest.
  ProductRates(const std::array<std::vector<double>, 3> &sizes,
               const std::vector<double> &rates);
  /// Over the rows.
  Curve at(double columns, double depth) const;

private:
  std::array<std::vector<double>, 3> sizes; ///< logarithms
  std::vector<double> rates;                ///< the same
};

} // namespace dt::planner

#endif // PASSES_PLANNER_HARDWARE_MEASURED_H
